"""Backends: the services that run training jobs, one module per service behind one protocol."""
