"""Know S3: which request addresses which object of which storage, what it does, and how it is signed."""
