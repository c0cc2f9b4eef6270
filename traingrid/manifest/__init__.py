"""Manifest: rows, columns and values of a file, checked and turned into jobs."""
