"""Between Arrow columns and the bytes of record batches."""
