"""Records that a query of Spark has taken, until it settles them."""
