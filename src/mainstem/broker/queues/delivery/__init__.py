"""How messages leave a queue: consumers, their turns, priorities, streams."""
