"""What administrators set for clients: users, quotas, measurements."""
