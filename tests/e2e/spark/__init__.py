"""Run whole Spark jobs that never hold a key, past a catalog that knows nothing of it and through the facade."""
