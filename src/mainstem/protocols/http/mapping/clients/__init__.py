"""Who uses the broker: connections, and consumers of topics."""
