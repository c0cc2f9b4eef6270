"""What the rank program step_loop.py, which imports TensorFlow, and steps.py, which does not, must agree on."""

BATCH_SIZE = 16
STEPS_PER_BLOCK = 3
