"""Image tables: resolves aliases of AWS's own images for each Region, offline, from the SageMaker Python SDK's data."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from traingrid.errors import UsageError
from traingrid.grid.file import ENVIRONMENT_LIMIT
from traingrid.grid.framework_images import FrameworkImage, to_environment
from traingrid.grid.model import GridSettings

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-images/bin/python"


def framework_images(grid: GridSettings, *, python: Path = PYTHON) -> dict[str, FrameworkImage]:
    """Return the images of the aliases that name a framework or an algorithm. Without such aliases, run nothing.

    Args:
        python: The Python interpreter of the environment in which the SDK is installed.

    Raises:
        UsageError: The SDK is not installed, it has no such image for a Region of the grid, or the result exceeds the
            size limit of a Lambda function's environment variables.
    """
    aliases = {alias: image for alias, image in grid.images.items() if image.is_of_aws}
    if not aliases:
        return {}
    if not python.exists():
        problem = f"images.{', images.'.join(aliases)}: the SageMaker Python SDK, which is required, is not installed."
        raise UsageError(problem, "Install it with `make setup-images`.")
    queried_fields = {"framework", "algorithm", "version", "target", "python"}
    queries = [
        {**image.model_dump(include=queried_fields), "regions": list(grid.regions)} for image in aliases.values()
    ]
    answers_by_alias = zip(aliases, ask(python, queries), strict=True)
    images = {alias: FrameworkImage.of_uris(_uris(alias, answer)) for alias, answer in answers_by_alias}
    length = len(grid.to_environment().encode()) + len(to_environment(images).encode())
    if length > ENVIRONMENT_LIMIT:
        rule = f"the grid and the registries of its images have {length} bytes, but the limit is {ENVIRONMENT_LIMIT}"
        raise UsageError(f"images: too large for a Lambda function's environment: {rule}.", "List fewer images.")
    return images


def _uris(alias: str, answer: dict[str, Any]) -> dict[str, str]:
    newer = "a newer SDK may know more images: change the group images of setup/pyproject.toml, and run `make lock`"
    if "problem" in answer:
        raise UsageError(f"images.{alias}: {answer['problem']}.", f"Correct it in grid.yaml; {newer}.")
    if "absent" in answer:
        rule = f"every Region of the grid needs this image, but AWS provides none in {', '.join(answer['absent'])}"
        next_step = f"Remove the Region from `regions` in grid.yaml, or the alias from `images`; {newer}."
        raise UsageError(f"images.{alias}: {rule}.", next_step)
    return dict(answer["uris"])


def ask(python: Path, wanted: list[dict[str, object]]) -> list[dict[str, Any]]:
    """Return the answers of stacks/retrieve_images.py, which documents the format of both.

    The SDK looks for credentials when it is imported, so the process gets none, and no access to instance metadata.

    Args:
        python: The Python interpreter of the environment in which the SDK is installed.
        wanted: One question for each image.

    Raises:
        UsageError: The script failed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    environment |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    script = Path(__file__).with_name("retrieve_images.py")
    result = subprocess.run(
        [str(python), str(script)],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if result.returncode:
        error_lines = result.stderr.strip().splitlines()
        cause = error_lines[-1] if error_lines else f"exit code {result.returncode}"
        problem = f"The SageMaker Python SDK failed: {cause}."
        raise UsageError(problem, "Reinstall it with `rm -r .venv-images; make setup-images`.")
    return list(json.loads(result.stdout))
