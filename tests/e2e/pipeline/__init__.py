"""Hold what stores themselves wrote down against the audit trail: each request has its decision, or is found."""
