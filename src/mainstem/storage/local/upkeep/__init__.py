"""Work in the background: merging, compaction, retention, room on the disk."""
