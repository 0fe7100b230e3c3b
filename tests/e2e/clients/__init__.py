"""Prove the documented client configuration with the clients themselves, against a store that verifies."""
