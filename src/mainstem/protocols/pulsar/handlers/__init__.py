"""What commands and requests do."""
