"""Queue mode under kills."""
