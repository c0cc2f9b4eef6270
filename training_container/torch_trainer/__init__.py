"""Torch trainer: data-parallel training of image classifiers with PyTorch, DistributedDataParallel and torchrun.

loop                the training loop, to be read first; step is one step of it
device              this rank's device, and its connection to other ranks
networks            the networks
images              a rank's share of a channel as batches; decoding and examples are their parts
validation          the metrics of the validation images
checkpoints         weights and progress, saved and restored
exports             the model and its report, and the initial model of the next training
"""
