"""The order of commits: what is admitted, with which offsets, and when it is shown. No files here."""
