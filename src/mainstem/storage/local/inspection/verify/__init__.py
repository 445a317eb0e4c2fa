"""Whether everything on disk is what was written."""
