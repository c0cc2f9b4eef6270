"""A rank of ingest.demultiplexer(): reads every FIFO whose path it is given, line by line.

python -m bench.training.ingest_rank raw|jpeg
"""

import sys

from bench.training.ingest import CHANNEL, consumed
from training_container.trainer import fifo

for path in sys.stdin:
    consumed(fifo.records(path.strip(), CHANNEL), sys.argv[1])
    print("done", flush=True)
