"""One small script for each launcher that needs no PyTorch, and a program that runs both in a local AWS."""
