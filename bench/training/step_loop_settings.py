"""Settings shared by the rank program step_loop.py, which imports TensorFlow, and steps.py, which does not."""

BATCH_SIZE = 16
STEPS_PER_BLOCK = 3
