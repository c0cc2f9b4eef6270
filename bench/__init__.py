"""Measurements of the control plane in localcloud (`make bench-control`). No test depends on them."""
