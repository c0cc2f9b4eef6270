"""Measurements of the training image (`make bench-training`), in .venv-training. No test depends on them."""
