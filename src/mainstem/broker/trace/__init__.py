"""Where a message went: through every protocol, its deaths and its returns. Derived from the log when somebody asks."""
