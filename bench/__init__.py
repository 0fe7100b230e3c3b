"""Measure what is promised of speed, memory and start-up: ratios against a peer or a floor of the same run."""
