"""Schemas that are registered: subjects, versions, ids."""
