"""Trainer: data-parallel training of image classifiers with TensorFlow 2.15 and Horovod 0.28.

loop                the training loop, to be read first; step is one step of it
models              the networks
data/               a rank's share of a channel, as batches in step with all other ranks
demux/              the records of streams, and the demultiplexer of a host's stream
checkpoints/        variables and progress, saved and restored
reporting/          the log, its metrics, and TensorBoard's events
"""
