"""Answer questions from the audit trail and from the stores' own logs, with PySpark; the server never imports it."""
