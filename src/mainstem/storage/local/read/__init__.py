"""Reading batches: from memory, from the write-ahead log, from runs, and ahead of the reader."""
