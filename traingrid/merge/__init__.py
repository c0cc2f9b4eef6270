"""Merging models: the line of a merge, from the jobs that trained its parts."""
