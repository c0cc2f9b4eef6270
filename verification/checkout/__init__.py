"""Checkout: images, deployment and forked children of this checkout, in a localcloud."""
