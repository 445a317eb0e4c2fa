"""Records of topics: read, followed, published."""
