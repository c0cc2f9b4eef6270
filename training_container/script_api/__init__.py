"""Script API: ranks, records and checkpoints for scripts without TensorFlow and Horovod, with any launcher."""
