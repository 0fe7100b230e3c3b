"""Generate a realistic month of a lake with planted faults, and the truth beside it; it imports nothing of the jobs."""
