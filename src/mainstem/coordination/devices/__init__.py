"""Topics in levels, the rules by which they lie on logs, and what is stored of the sessions of devices."""
