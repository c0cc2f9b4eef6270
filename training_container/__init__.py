"""The training image: SageMaker's `train` entry, which starts Horovod ranks, and the trainer that they run.

train, __main__     the program that SageMaker starts on every host
contract            SageMaker's files, read into frozen dataclasses
launch, gloo        the command that starts one rank per process slot, with mpirun or with Horovod's Gloo
hosts               several hosts over ssh, as on SageMaker
failure             what a rank reports when it fails, and the sentence that SageMaker shows
rank                the program that every rank runs
trainer/            input, models, loop: TensorFlow and Horovod live here and are imported by ranks alone
"""
