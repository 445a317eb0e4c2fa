"""Administration: topics, configuration, quotas, placement."""
