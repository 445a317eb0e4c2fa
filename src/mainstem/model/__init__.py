"""The words every layer shares: identities, time and errors. Standard library only."""
