"""Bare prototypes of brokers: no recovery, no merge, no checks. A floor to measure against, not code to build on."""
