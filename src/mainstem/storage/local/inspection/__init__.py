"""Looking at a data directory from outside: what lies in it, whether it is whole, how large it is. Changes nothing, locks nothing."""
