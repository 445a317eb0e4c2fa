"""Records of topics as they are asked for, shown and published."""
