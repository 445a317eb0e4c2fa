"""Frames, messages and properties of the remoting protocol."""
