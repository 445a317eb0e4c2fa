"""Topics as a source of Spark: what can be asked, where a read begins, what a task reads."""
