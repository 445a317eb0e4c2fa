"""Measurements of the storage engine, each as a ratio to a bare loop in the same run. Run by `make bench`."""
