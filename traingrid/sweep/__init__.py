"""Sweeps: train one model with many hyperparameters, and find the best of them."""
