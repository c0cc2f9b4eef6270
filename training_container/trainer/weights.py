"""Weights: a digest by which trainings that began with the same weights are recognized."""

import hashlib
from collections.abc import Iterable

import tensorflow as tf


def weights_digest(variables: Iterable[tf.Variable]) -> str:
    """Return the SHA-256 of the types, shapes and values of variables, in their order; names do not count."""
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(f"{variable.dtype.name}{variable.shape.as_list()}".encode())
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()
