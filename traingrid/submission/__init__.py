"""Submission: a manifest from its upload to its end, with status, cancel and retry."""
