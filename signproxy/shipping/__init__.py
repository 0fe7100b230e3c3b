"""Upload sealed segments of the audit trail: each until it is proved to be there, and only then deleted here."""
