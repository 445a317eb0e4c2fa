"""Records of topics for people and programs that know no offsets protocol: read with filters, published in one commit."""
