"""Records as single messages, the way queues use them: out of stored batches and into new ones."""
