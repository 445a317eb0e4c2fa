"""Deliveries: consumers, frames, prefetch, acknowledgements."""
