"""Hold the server's own S3 credentials: where they come from, for which hosts, and until when they are good."""
