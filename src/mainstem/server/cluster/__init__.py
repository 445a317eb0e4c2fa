"""A broker that shares its store with others: it owns the shard, or stands by until it may."""
