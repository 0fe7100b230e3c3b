"""Prove signproxy on real stores: what it signs is sent, and the store is asked what happened."""
