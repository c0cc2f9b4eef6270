"""Training image: SageMaker's `train` entry point, which starts Horovod ranks, and the trainer that they run.

train, __main__     the program that SageMaker starts on every host
contract            SageMaker's files, parsed into frozen dataclasses
launch, gloo        the command that starts one rank per process slot, with mpirun or Horovod's Gloo launcher
hosts               several hosts over ssh, as on SageMaker
failure             the report of a failed rank, and the failure reason that SageMaker shows
rank                the program that every rank runs
trainer/            input, models and loop: only ranks import this, and so TensorFlow and Horovod
"""
