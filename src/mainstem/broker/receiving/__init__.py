"""Messages of queues that are taken for a time and settled by a receipt, by clients that keep no connection."""
