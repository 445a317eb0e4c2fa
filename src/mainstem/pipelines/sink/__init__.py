"""Topics as a sink of Spark: rows become batches, all of a micro-batch or none."""
