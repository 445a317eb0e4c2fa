"""Records: Produce, Fetch, and positions in partitions."""
