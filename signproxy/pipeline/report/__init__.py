"""Make one page of what the pipeline found: plain values from the warehouse, then markup from those values alone."""
