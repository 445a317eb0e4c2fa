"""HTTP/1.1: the operator's door today."""
