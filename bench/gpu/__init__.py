"""`make bench-gpu`: images per second of the trainer on GPUs, and the parts of its step."""
