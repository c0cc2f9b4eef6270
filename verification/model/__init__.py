"""In-memory AWS for traingrid's own classes: no server and no waiting, and a caller can be killed at any call."""
