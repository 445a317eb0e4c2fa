"""A store that outlives its machine: groups are shipped before they are answered, runs are kept in object storage."""
