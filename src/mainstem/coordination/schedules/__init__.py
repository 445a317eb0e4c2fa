"""Records for later: buckets of time, and rules that recur."""
