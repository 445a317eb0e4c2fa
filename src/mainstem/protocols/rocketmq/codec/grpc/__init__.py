"""Messages of the gRPC protocol."""
