"""A child of an array: its index and attempt determine its output and its exit code."""

import json
import os
import signal
import sys

prefix = "AWS_BATCH_"
of_batch = ("JOB_ID", "JOB_ATTEMPT", "JOB_ARRAY_INDEX", "JOB_ARRAY_SIZE", "JQ_NAME", "MINE")
names = [*(prefix + name for name in of_batch), "MINE"]
print(json.dumps({name: os.environ[name] for name in names if name in os.environ}), flush=True)
index, attempt = os.environ.get("AWS_BATCH_JOB_ARRAY_INDEX", ""), os.environ["AWS_BATCH_JOB_ATTEMPT"]
if index == "1":
    sys.exit(75 if attempt == "1" else 0)
if index == "2":
    sys.exit(2)
if index == "3":
    sys.exit(9 if attempt == "1" else 0)
if index == "4" and attempt == "1":
    os.kill(os.getpid(), signal.SIGKILL)
