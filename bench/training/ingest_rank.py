"""A rank of ingest.demultiplexer(): reads the FIFOs whose paths it receives on standard input, one per line.

python -m bench.training.ingest_rank raw|jpeg
"""

import sys

from bench.training.ingest import CHANNEL, consumed
from training_container.trainer.demux import record_reader

for path in sys.stdin:
    consumed(record_reader.fifo_records(path.strip(), CHANNEL), sys.argv[1])
    print("done", flush=True)
