"""Live numbers with a short history, kept in memory."""
