"""Topics as tables: what the log has had so far as Parquet, and where the log goes on.

manifest    which files are the table, and up to which offset of each partition they reach
store       where files and manifests lie, and how one manifest follows another
files       rows to Parquet, and small files to larger ones: in tasks, on executors
writer      takes over from the log what is new; merges, forgets, cleans up
running     does so for every topic that wants it
reading     files and the rest of the log as one frame
sink        rows of a streaming query into a table, each batch once
delta       the same into a table of Delta Lake
"""
