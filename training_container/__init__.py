"""Training image: SageMaker's `train` entry point, which starts Horovod ranks, and the trainer that they run.

train, __main__     the program that SageMaker starts on every host
contract/           SageMaker's files, parsed into frozen dataclasses; the agreement on stopping
launcher/           starts one rank per process slot on all hosts, and explains why a rank failed
ranks/              the programs of a process slot: the trainer, or a script
recipe/             the parts of a trainer without a framework: hyperparameters, schedule, decisions, metrics
trainer/            input, models and loop: only ranks import this, and so TensorFlow and Horovod
torch_trainer/      the same for PyTorch
script_path/        the package `trainer` of custom scripts
native/             C++: the file system for FIFOs, and the demultiplexer
"""
