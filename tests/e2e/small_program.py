"""A small training program for tests whose subject is not the training, because TensorFlow takes seconds to import."""

import io
import tarfile

from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client

PROGRAM = """\
import os, pathlib, sys
files = [path for path in pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]).rglob("*") if path.is_file()]
size = sum(len(path.read_bytes()) for path in files)
print("the arguments are", *sys.argv[1:])
for epoch in (1, 2):
    print(f"epoch={epoch} validation_top1={size % 1000 / 1000}", flush=True)
pathlib.Path(os.environ["SM_MODEL_DIR"], "size.txt").write_text(str(size))
"""
"""Reads the channel `train`, prints a metric that depends on its size, and writes the size as the model."""


def uploaded_program(
    plane: ControlPlane, region: str, program: str = PROGRAM, name: str = "train.py"
) -> dict[str, str]:
    """Upload a program into a Region's data bucket, and return the fields of a line that runs it once on each host.

    Args:
        plane: The control plane.
        region: The Region.
        program: The program, a Python or shell script.
        name: Its file name, which determines the key of the archive.
    """
    content, code = io.BytesIO(), program.encode()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(code)
        archive.addfile(member, io.BytesIO(code))
    bucket = names.data_bucket("traingrid", plane.deployment.account, region)
    key = f"source/{name.partition('.')[0]}.tar.gz"
    client("s3", region).put_object(Bucket=bucket, Key=key, Body=content.getvalue())
    return {"source": f"s3://{bucket}/{key}", "entry_point": name, "launcher": "none"}
