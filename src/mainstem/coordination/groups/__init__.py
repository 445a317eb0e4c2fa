"""Groups of consumers: members, assignments, offsets."""
