"""What the merge process does: files of the write-ahead log into runs, runs into fewer runs."""
