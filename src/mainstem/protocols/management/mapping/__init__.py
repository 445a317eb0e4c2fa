"""Their words <-> ours."""
