"""Settings shared by the rank program step_loop.py, which imports TensorFlow, and steps.py, which does not."""

from bench.size import size

BATCH_SIZE = size(16, 1)
STEPS_PER_BLOCK = size(3, 1)
