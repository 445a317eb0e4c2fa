"""A real engine on a real directory, killed with SIGKILL again and again; nothing that it acknowledged may be missing."""
