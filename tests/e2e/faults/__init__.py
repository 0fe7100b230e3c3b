"""Break what signproxy stands on while it is under load, and count what its callers notice."""
