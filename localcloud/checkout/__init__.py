"""Checkout: images, deployment and forked children of the traingrid checkout that contains localcloud."""
