"""Rehearsal: tries out a manifest on the real grid in a temporary localcloud with injected faults, at no cost."""
