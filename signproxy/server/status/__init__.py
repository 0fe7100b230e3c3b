"""Tell how a server is doing: health, readiness, metrics, the status and its page."""
