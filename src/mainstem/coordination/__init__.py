"""State above the log: topics, groups, transactions. `decide` makes mutations, `replay` applies them."""
