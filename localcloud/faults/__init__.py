"""Faults: the plan of injected failures, applied to calls and events."""
