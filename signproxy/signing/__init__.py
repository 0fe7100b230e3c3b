"""Turn an `Allow` into headers that make the client's own request valid for a short time."""
