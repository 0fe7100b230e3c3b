"""A real identity provider, and signproxy in front of everything that one can do."""
