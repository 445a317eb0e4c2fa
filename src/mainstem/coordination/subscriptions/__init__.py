"""A log read as a queue: cursors, leases, retries, selectors."""
