"""Keys that are handed out for a table."""
