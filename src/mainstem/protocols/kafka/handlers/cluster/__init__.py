"""What a client learns of the cluster."""
