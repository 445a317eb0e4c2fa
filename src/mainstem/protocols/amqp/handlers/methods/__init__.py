"""Methods that carry no content, by class."""
