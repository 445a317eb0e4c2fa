"""Looking at a data directory from outside: what is in it, and whether that is whole. Nothing is changed or locked."""
