"""Stand-ins for disk, clock and threads, with which every failure can be replayed from a seed.

The product never imports them.
"""
