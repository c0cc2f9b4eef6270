"""Checkpoints: saves and restores a training's variables and its progress."""
