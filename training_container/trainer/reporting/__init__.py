"""Reporting: the log, its metrics, and TensorBoard's events."""
