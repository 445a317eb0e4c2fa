"""What an engine needs of the world: threads, timers, the disk."""
