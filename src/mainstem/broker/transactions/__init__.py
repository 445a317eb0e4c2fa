"""Transactions, and the producers that write in them."""
