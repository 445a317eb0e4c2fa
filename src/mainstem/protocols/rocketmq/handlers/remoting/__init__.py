"""Requests of the remoting protocol."""
