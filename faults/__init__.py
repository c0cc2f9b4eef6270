"""The fault suite: a deployed grid in a localcloud that fails on purpose, and what must hold of it all the same."""
