"""The engine in memory: for tests, and for logs that need not outlive the process."""
