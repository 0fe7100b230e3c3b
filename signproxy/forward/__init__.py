"""Serve an `Allow` by sending the request on: signed anew, streamed both ways, and with nothing else changed."""
