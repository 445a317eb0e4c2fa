"""The broker's words <-> ours: documents, and refusals."""
