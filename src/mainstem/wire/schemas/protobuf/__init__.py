"""Protocol Buffers: the language of .proto files, versions 2 and 3, and what its wire format lets change."""
