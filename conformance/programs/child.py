"""A child of an array: what it prints and how it ends depends on its index and on the attempt."""

import json
import os
import signal
import sys

names = ("AWS_BATCH_JOB_ID", "AWS_BATCH_JOB_ATTEMPT", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JQ_NAME", "MINE")
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
