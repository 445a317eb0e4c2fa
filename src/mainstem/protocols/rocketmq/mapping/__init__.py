"""Words of RocketMQ and ours."""
