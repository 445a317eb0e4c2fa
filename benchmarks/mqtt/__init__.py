"""MQTT beside mosquitto."""
