"""Throw bytes at the way from a sign request to its signature."""
