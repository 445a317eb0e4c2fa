"""Field tables of every message, by family. Facts only: the language is `schema`, the meaning is `codec`."""
