"""What operators set: namespaces, users and what they may do, policies, parameters."""
