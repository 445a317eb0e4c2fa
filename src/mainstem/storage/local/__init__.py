"""The engine on local disk: one write-ahead log, merged into sorted runs."""
