"""Prove what signproxy promises, room by room."""
