"""Calls of the gRPC protocol."""
