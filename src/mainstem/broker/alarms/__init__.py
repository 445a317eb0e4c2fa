"""Alarms: rules over what the broker measures of itself, and what became of them."""
