"""Processes: programs that start, print and end together, and never outlive the server."""
