"""A stream that takes messages from a queue or a subscription, and settles them."""
