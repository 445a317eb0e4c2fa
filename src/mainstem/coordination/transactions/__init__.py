"""Transactions and producer ids."""
