"""Know where the policy comes from: read it, check it, and find the tables that a request concerns."""
