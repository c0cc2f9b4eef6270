"""PyTorch: a vision transformer on handwritten digits, on two hosts of two ranks, of which one host is killed."""
