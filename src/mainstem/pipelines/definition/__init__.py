"""What a pipeline is: read from a file, checked, and told where it is wrong. Knows no Spark."""
