"""Data: a rank's share of a channel, as batches of images in step with all other ranks."""
