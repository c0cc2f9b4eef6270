"""`make bench-gpu-torch`: images per second of PyTorch with the modules of `trainer` on a GPU, and its limits."""
