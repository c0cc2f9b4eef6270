"""Demux: reads the records of a stream, and distributes a host's stream to its ranks."""
