"""Metrics: the values that jobs report, and comparisons of jobs by them."""
