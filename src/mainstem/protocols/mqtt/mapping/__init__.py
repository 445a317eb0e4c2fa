"""Words of MQTT and ours."""
