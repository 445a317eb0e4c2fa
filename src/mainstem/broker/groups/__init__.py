"""Groups of consumers: classic, directed, share and streams groups."""
