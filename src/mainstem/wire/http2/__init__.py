"""HTTP/2, and gRPC over it: what a server needs of both, without a socket."""
