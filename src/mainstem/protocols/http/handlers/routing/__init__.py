"""Where messages go: exchanges and bindings; and requests that wait for their reply."""
