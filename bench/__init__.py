"""Measurements of the control plane, against localcloud: `make bench-control`. No test depends on them."""
