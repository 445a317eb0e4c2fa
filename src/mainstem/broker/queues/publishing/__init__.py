"""How messages enter queues: one draft for each turn of the loop, one commit for each draft."""
