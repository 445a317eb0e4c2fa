"""Schemas, for every protocol: registered, found and compared."""
