"""The required content of the Dockerfiles, checked without building them; tests/containers builds them."""

import re
from pathlib import Path

import pytest

from traingrid.grid.image import Image

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
    assert arguments.pop("EFA", "none") == "none" or re.fullmatch(r"[0-9a-f]{64}", arguments.pop("EFA_SHA256"))
    assert not arguments
    for command in re.findall(r"pip install .*", dockerfile.read_text().replace("\\\n", " ")):
        assert "--require-hashes" in command


@pytest.mark.parametrize("dockerfile", [TRAINING, TORCH, ORCHESTRATOR])
def test_dockerignore_keeps_all_files_that_a_dockerfile_copies(dockerfile: Path) -> None:
    text = dockerfile.read_text().replace("\\\n", " ")
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", text, flags=re.M)
    copied = [Path(word) for line in lines for word in line.split()]
    kept = set(re.findall(r"^!(.+?)(?:/\*\*)?$", (ROOT / ".dockerignore").read_text(), flags=re.M))
    assert copied
    assert not [path for path in copied if not kept & {str(folder) for folder in (path, *path.parents)}]


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


def test_both_dockerfiles_have_the_same_base_and_efa() -> None:
    arguments = [re.findall(r"^ARG (?:BASE|EFA|EFA_SHA256)=.*$", path.read_text(), re.M) for path in (TRAINING, TORCH)]
    assert len(arguments[0]) == 3
    assert arguments[0] == arguments[1]


@pytest.mark.parametrize(("dockerfile", "stage"), [(TRAINING, "gpu"), (TORCH, "torch")])
def test_images_for_gpus_install_efa_from_a_verified_archive(dockerfile: Path, stage: str) -> None:
    assert '/opt/traingrid/setup/efa.sh "$EFA" "$EFA_SHA256"' in stages(dockerfile)[stage]
    assert "efa-installer" not in dockerfile.read_text(), "only setup/efa.sh downloads it"


@pytest.mark.parametrize("dockerfile", [TRAINING, TORCH])
def test_the_arguments_that_grid_yaml_sets_are_those_of_the_dockerfiles(dockerfile: Path) -> None:
    """docker only warns of a build argument that no Dockerfile has."""
    image = Image.model_validate({"build": "training", "target": "gpu", "efa": "1.50.0", "efa_sha256": "a" * 64})
    declared = re.findall(r"^ARG (\w+)=", dockerfile.read_text(), flags=re.M)
    assert {argument.partition("=")[0] for argument in image.build_arguments()} <= set(declared)


@pytest.mark.parametrize("requirements", ["training-gpu.txt", "training-torch.txt"])
def test_nccl_is_new_enough_for_efas_plugin(requirements: str) -> None:
    """aws-ofi-nccl 1.20.0 requires NCCL 2.17.1: https://github.com/aws/aws-ofi-nccl/releases/tag/v1.20.0."""
    text = (ROOT / "setup/requirements" / requirements).read_text()
    found = re.search(r"^nvidia-nccl-cu12==(\d+)\.(\d+)\.(\d+)", text, re.M)
    assert found is not None
    assert tuple(map(int, found.groups())) >= (2, 17, 1)


def test_pytorchs_wheel_is_the_one_for_cuda_12() -> None:
    """A newer wheel of PyPI would require a newer driver, which p3 and p4 instances of SageMaker may not have."""
    locked = re.findall(r"^(torch|nvidia-\S+)==", (ROOT / "setup/requirements/training-torch.txt").read_text(), re.M)
    assert {"torch", "nvidia-cublas-cu12", "nvidia-cudnn-cu12", "nvidia-nccl-cu12"} <= set(locked)
    assert not [name for name in locked if name.endswith("-cu13")]


def test_sshd_sessions_do_not_require_an_audit_id() -> None:
    assert re.search(r"session\s+optional pam_loginuid\.so@?'? /etc/pam\.d/sshd", stages(TRAINING)["host"])


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_a_training_image_records_debians_packages(target: str) -> None:
    assert "RUN dpkg-query --show >/opt/traingrid/debian-packages.txt" in stages(TRAINING)[target]
