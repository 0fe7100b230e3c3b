"""Serve the API over HTTP: sign requests, catalog calls and keys."""
