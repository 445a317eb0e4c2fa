"""Groups of consumers: classic, KIP-848, streams (KIP-1071), and their offsets."""
