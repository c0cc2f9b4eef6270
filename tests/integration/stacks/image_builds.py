"""Image builds: the builds of images in templates, for the tests of this folder."""

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.cx_api import CloudAssembly

from stacks import image_build
from stacks.image_build import ORCHESTRATOR, ImageBuild, Recipe
from tests.integration.stacks.templates import Template, flat, resources

ROOT = Path(__file__).resolve().parents[3]
REPOSITORY_ARN = "arn:aws:ecr:<AWS::Region>:<AWS::AccountId>:repository/traingrid/orchestrator"
TRAINING_IMAGES = {
    "images": {
        "resnet": {"build": "training", "target": "gpu"},
        "small": {"build": "training", "target": "cpu"},
        "again": {"build": "training", "target": "gpu"},
        "theirs": {"repository": "theirs", "tag": "3"},
    }
}


def variables(project: dict[str, Any]) -> dict[str, str]:
    return {entry["Name"]: flat(entry["Value"]) for entry in project["Environment"]["EnvironmentVariables"]}


def built(recipe: Recipe = ORCHESTRATOR, root: Path = ROOT, replicas: tuple[str, ...] = ()) -> ImageBuild:
    """Return the build of a recipe with the files below `root`."""
    stack = Stack(App(), "Stack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_build, "ROOT", root)
        return ImageBuild(
            stack,
            "Build",
            recipe=recipe,
            repository_name="grid/name",
            replicas=replicas,
            log_group="grid/builds",
        )


def asset_with(folder: str, synthesised: CloudAssembly) -> Path:
    """Return the asset that has a folder."""
    (asset,) = [path for path in Path(synthesised.directory).glob("asset.*") if (path / folder).is_dir()]
    return asset


def variables_by_target(builds: Template) -> dict[str, dict[str, str]]:
    """Return the variables of each project: of builds by target, of the wait by "wait"."""
    projects = resources(builds, "AWS::CodeBuild::Project").values()
    builds_or_wait = [variables(project["Properties"]) for project in projects]
    return {entry.get("TARGET", "wait" if "REGIONS" in entry else "orchestrator"): entry for entry in builds_or_wait}
