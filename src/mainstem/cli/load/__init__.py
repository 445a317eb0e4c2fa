"""What `mainstem bench` puts on a broker: one client of one protocol each, and how long its requests take."""
