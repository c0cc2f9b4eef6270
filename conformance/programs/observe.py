"""A training container that prints its environment as one line of JSON, and writes a model and other output."""

import json
import os
import pathlib
import shutil
import stat
import sys

base = pathlib.Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
names = ("TRAINING_JOB_NAME", "TRAINING_JOB_ARN", "AWS_REGION", "MINE")


def files(channel: str) -> list[str]:
    """Return the files of a channel."""
    folder = base / "input/data" / channel
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


resources = json.loads((base / "input/config/resourceconfig.json").read_text())
fifo = base / "input/data/pipe_0"
found = {
    "host": resources["current_host"],
    "hyperparameters": json.loads((base / "input/config/hyperparameters.json").read_text()),
    "resources": resources,
    "inputs": json.loads((base / "input/config/inputdataconfig.json").read_text()),
    "files": {channel: files(channel) for channel in ("file", "fast", "prefix", "shard", "listed")},
    "is_fifo": fifo.exists() and stat.S_ISFIFO(fifo.stat().st_mode),
    "streamed": fifo.read_bytes().decode() if fifo.exists() else "",
    "environment": {name: os.environ[name] for name in names if name in os.environ},
    "arguments": sys.argv[1:],
    "cpus": os.cpu_count(),
    "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
    "disk_gb": shutil.disk_usage(base).total / 1e9,
}
print("REPORT " + json.dumps(found), flush=True)
print("loss=0.5", flush=True)
print("loss=0.25", flush=True)
(base / "model" / found["host"]).write_text("w")
(base / "output/data").mkdir(parents=True, exist_ok=True)
(base / "output/data/plot").write_text("p")
