"""Both Dockerfiles, built as in CodeBuild: unmodified, with only the sources of the deployed asset.

No secrets are mounted, the base image is the only build argument, and EFA is off. The base resembles the public one:
Debian bookworm with Python 3.11 in /usr/local (containers/public_base.sh describes the differences).
"""

import shutil
from pathlib import Path

import pytest

from stacks.image_build import ORCHESTRATOR, TRAINING, Recipe
from tests.containers.engine import REPOSITORY, build_unmodified, podman, public_base, require_containers


def context(recipe: Recipe, folder: Path) -> Path:
    """Return a folder with the files of a recipe, as CodeBuild gets them."""
    for source in recipe.sources:
        target = folder / source
        target.parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / source).is_dir():
            shutil.copytree(REPOSITORY / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPOSITORY / source, target)
    return folder


@pytest.fixture(scope="module")
def base() -> str:
    require_containers()
    return public_base()


@pytest.fixture(scope="module")
def training(base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    recipe = TRAINING["cpu"]
    return build_unmodified(context(recipe, tmp_path_factory.mktemp("training")), recipe.dockerfile, "cpu", base)


def in_image(image: str, *command: str) -> str:
    """Run a program in a container without network access, and return its output."""
    return podman("run", "--rm", "--network", "none", "--entrypoint", command[0], image, *command[1:])


def test_the_base_has_python_in_usr_local(base: str) -> None:
    assert in_image(base, "python3", "-c", "import sys; print(sys.base_prefix)") == "/usr/local"
    assert in_image(base, "sh", "-c", "ls /usr/bin/python3* 2>/dev/null | wc -l") == "0"


def test_the_orchestrators_image_is_built_and_reads_its_environment(base: str, tmp_path: Path) -> None:
    image = build_unmodified(context(ORCHESTRATOR, tmp_path), ORCHESTRATOR.dockerfile, "", base)
    assert in_image(image, "python3", "-c", "import sys, traingrid, boto3; print(sys.base_prefix)") == "/usr/local"
    done = podman("run", "--rm", "--network", "none", image, check=False)
    assert "Traceback" not in done


def test_the_training_image_is_built_with_mpi_and_starts(training: str) -> None:
    output = in_image(
        training, "python3", "-c", "import horovod.tensorflow as h; print(h.mpi_built(), h.gloo_built())"
    )  # fmt: skip
    assert output.splitlines()[-1] in ("1 1", "True True")
    assert in_image(training, "sh", "-c", "ls /opt/training/lib/traingrid | wc -l") != "0", "the native FIFO reader"


def test_the_training_image_records_debians_packages_and_lets_ssh_in(training: str) -> None:
    packages = in_image(training, "cat", "/opt/traingrid/debian-packages.txt")
    assert "openmpi-bin\t" in packages
    pam = in_image(training, "grep", "pam_loginuid", "/etc/pam.d/sshd")
    assert pam.startswith("session optional")
    config = podman("image", "inspect", "--format", "{{.Config.Env}}", training)
    assert "NVIDIA" not in config, "an image for processors asks for no GPU"
