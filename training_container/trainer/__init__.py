"""The trainer: data-parallel training of image classifiers with TensorFlow 2.15 and Horovod 0.28."""
