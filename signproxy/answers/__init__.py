"""Say what an answer of the API looks like, and read the bodies of its requests."""
