"""For `launcher: mpi`: the ranks of all hosts add up their numbers with Horovod.

Horovod's own scripts start in the same way: hvd.init() finds the ranks that mpirun, or Horovod's Gloo, has started.
"""

import argparse
import json
import os
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf


def main() -> None:
    """Add up the numbers `--first`, `--first` + 1, ... of all ranks; rank 0 writes the sum."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    first = parser.parse_args().first  # strict: an unknown argument ends the job, with its text as the reason
    hvd.init()
    total = int(hvd.allreduce(tf.constant(first + hvd.rank()), op=hvd.Sum))
    if hvd.rank() == 0:
        print(f"ranks={hvd.size()} total={total}")
        (Path(os.environ["SM_MODEL_DIR"]) / "sum.json").write_text(json.dumps({"ranks": hvd.size(), "total": total}))


if __name__ == "__main__":
    main()
