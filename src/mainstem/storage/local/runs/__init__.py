"""Runs: sorted files of batches, their index, their keys, their state."""
