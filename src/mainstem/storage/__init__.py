"""The log: engines that keep batches and state, durable and in order."""
