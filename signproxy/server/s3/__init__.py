"""Speak S3 to clients: the listener of the transparent mode."""
