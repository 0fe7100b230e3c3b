"""Clients of other languages, each run against a store and through signproxy, and compared step by step."""
