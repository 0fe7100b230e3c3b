"""Hold the jobs: each a pure function from DataFrames to DataFrames, and what reads and writes around it."""
