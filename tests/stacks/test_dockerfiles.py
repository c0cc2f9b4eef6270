"""What the Dockerfiles must hold, read without building them; tests/containers builds them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAINING, ORCHESTRATOR = ROOT / "training_container/Dockerfile", ROOT / "batch_job/Dockerfile"


def stages(dockerfile: Path) -> dict[str, str]:
    """Return the instructions of each stage that has a name, continued lines joined."""
    text = re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.M).replace("\\\n", " ")
    parts = re.split(r"^FROM\s+\S+(?:\s+AS\s+(\S+))?\s*$", text, flags=re.M)
    return {name: body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name}


@pytest.mark.parametrize("dockerfile", [TRAINING, ORCHESTRATOR])
def test_all_that_changes_an_image_is_in_the_hash_of_its_tag(dockerfile: Path) -> None:
    """The hash has the Dockerfile, the files that it copies, and build arguments that grid.yaml sets."""
    arguments = dict(re.findall(r"^ARG (\w+)=(.*)$", dockerfile.read_text(), flags=re.M))
    assert re.fullmatch(r"public\.ecr\.aws/\S+:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", arguments.pop("BASE"))
    assert arguments in ({}, {"EFA": ""})
    for command in re.findall(r"pip install .*", dockerfile.read_text().replace("\\\n", " ")):
        assert "--require-hashes" in command


def test_the_gpu_image_asks_for_gpus_and_cudas_libraries_and_the_other_does_not() -> None:
    found = stages(TRAINING)
    assert "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n" in found["gpu-environment"]
    assert not [name for name, body in found.items() if "NVIDIA" in body and name != "gpu-environment"]


def test_a_session_of_sshd_needs_no_audit_id() -> None:
    assert re.search(r"session\s+optional pam_loginuid\.so@?'? /etc/pam\.d/sshd", stages(TRAINING)["host"])


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_a_training_image_records_debians_packages(target: str) -> None:
    assert "RUN dpkg-query --show >/opt/traingrid/debian-packages.txt" in stages(TRAINING)[target]
