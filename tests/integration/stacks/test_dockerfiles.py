"""The required content of the Dockerfiles, checked without building them; tests/containers builds them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TRAINING, ORCHESTRATOR = ROOT / "training_container/Dockerfile", ROOT / "batch_job/Dockerfile"
TORCH = ROOT / "training_container/Dockerfile.torch"


def stages(dockerfile: Path) -> dict[str, str]:
    """Return the instructions of each named stage, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.M).replace("\\\n", " ")
    parts = re.split(r"^FROM\s+\S+(?:\s+AS\s+(\S+))?\s*$", text, flags=re.M)
    return {name: body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name}


@pytest.mark.parametrize("dockerfile", [TRAINING, TORCH, ORCHESTRATOR])
def test_base_images_and_packages_are_pinned(dockerfile: Path) -> None:
    """The tag's hash covers the Dockerfile, the files that it copies, and the build arguments of grid.yaml."""
    arguments = dict(re.findall(r"^ARG (\w+)=(.*)$", dockerfile.read_text(), flags=re.M))
    assert re.fullmatch(r"public\.ecr\.aws/\S+:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", arguments.pop("BASE"))
    assert arguments in ({}, {"EFA": ""})
    for command in re.findall(r"pip install .*", dockerfile.read_text().replace("\\\n", " ")):
        assert "--require-hashes" in command


def test_only_the_gpu_image_requests_gpus_and_cuda_libraries() -> None:
    found = stages(TRAINING)
    assert "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n" in found["gpu-environment"]
    assert not [name for name, body in found.items() if "NVIDIA" in body and name != "gpu-environment"]


def test_the_pytorch_image_requests_gpus_and_has_neither_mpi_nor_ssh() -> None:
    (body,) = stages(TORCH).values()
    assert "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n" in body
    assert "mpi" not in body
    assert "ssh" not in body
    assert "RUN dpkg-query --show >/opt/traingrid/debian-packages.txt" in body


def test_both_dockerfiles_have_the_same_base() -> None:
    bases = [re.search(r"^ARG BASE=(.*)$", path.read_text(), re.M) for path in (TRAINING, TORCH)]
    assert len({found[1] for found in bases if found}) == 1


def test_pytorchs_wheel_is_the_one_for_cuda_12() -> None:
    """A newer wheel of PyPI would require a newer driver, which p3 and p4 instances of SageMaker may not have."""
    locked = re.findall(
        r"^(torch|nvidia-\S+)==", (ROOT / "training_container/requirements-torch.txt").read_text(), re.M
    )
    assert {"torch", "nvidia-cublas-cu12", "nvidia-cudnn-cu12", "nvidia-nccl-cu12"} <= set(locked)
    assert not [name for name in locked if name.endswith("-cu13")]


def test_sshd_sessions_do_not_require_an_audit_id() -> None:
    assert re.search(r"session\s+optional pam_loginuid\.so@?'? /etc/pam\.d/sshd", stages(TRAINING)["host"])


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_a_training_image_records_debians_packages(target: str) -> None:
    assert "RUN dpkg-query --show >/opt/traingrid/debian-packages.txt" in stages(TRAINING)[target]
