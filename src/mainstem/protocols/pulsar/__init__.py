"""Apache Pulsar: the binary protocol and the administration over HTTP."""
