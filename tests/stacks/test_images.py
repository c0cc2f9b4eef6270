"""The images that a deployment builds: from what, by whose leave, and how the rest of the grid gets to know them."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_logs as logs

from stacks import image_build
from stacks.image_build import ORCHESTRATOR, ImageBuild, Recipe
from stacks.registry import registry
from tests.stacks.templates import Template, a_grid, flat, on, only, resources, statements, synthesise

ROOT = Path(__file__).resolve().parents[2]
BUILD = "OrchestratorBuildRole"


@pytest.fixture(scope="module")
def images(layer: Path, tmp_path_factory: pytest.TempPathFactory) -> Template:
    return synthesise(a_grid(2), layer, tmp_path_factory.mktemp("images"))["traingrid-images"]


def variables(project: dict[str, Any]) -> dict[str, str]:
    return {entry["Name"]: flat(entry["Value"]) for entry in project["Environment"]["EnvironmentVariables"]}


def built(recipe: Recipe = ORCHESTRATOR, root: Path = ROOT, regions: tuple[str, ...] = ()) -> ImageBuild:
    """Return the build of a recipe from the files below `root`."""
    stack = Stack(App(), "Stack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_build, "ROOT", root)
        return ImageBuild(
            stack,
            "Build",
            recipe=recipe,
            repository=registry(stack, "Repository", name="grid/name"),
            repository_name="grid/name",
            regions=regions,
            log_retention=logs.RetentionDays.ONE_DAY,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the orchestrator's image is built from, elsewhere and at another time."""
    for source in ORCHESTRATOR.sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / source)
        else:
            shutil.copy(ROOT / source, tmp_path / source)
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    return tmp_path


def test_the_tag_says_what_an_image_is_made_from_and_nothing_else(checkout: Path) -> None:
    here = built().tag
    (checkout / "README.md").write_text("not in the image")
    (checkout / "traingrid/__pycache__").mkdir(exist_ok=True)
    (checkout / "traingrid/__pycache__/x.cpython-311.pyc").write_bytes(b"compiled")
    assert built(root=checkout).tag == here
    (checkout / "traingrid/names.py").write_text("CHANGED = 1\n")
    assert built(root=checkout).tag != here


def test_a_region_more_or_another_way_to_build_is_another_tag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = built(regions=("eu-west-1",)).tag
    assert built(regions=("eu-west-1", "us-west-2")).tag != before
    script = tmp_path / "build.sh"
    script.write_text(image_build.SCRIPT.read_text() + "# better\n")
    monkeypatch.setattr(image_build, "SCRIPT", script)
    assert built(regions=("eu-west-1",)).tag != before


def test_the_sources_of_the_orchestrator_are_all_that_its_dockerfile_copies(layer: Path, tmp_path: Path) -> None:
    synthesise(a_grid(1), layer, tmp_path)
    (asset,) = [path for path in tmp_path.glob("asset.*") if (path / "batch_job").is_dir()]
    assert {path.name for path in asset.iterdir()} == {"batch_job", "traingrid", "requirements-orchestrator.txt"}
    assert not list(asset.rglob("*.pyc"))


def test_the_deployment_asks_for_the_image_again_only_when_its_tag_changes(images: Template) -> None:
    request = only(images, "Custom::ContainerImage")
    project = only(images, "AWS::CodeBuild::Project")
    assert set(request) == {"ServiceToken", "ServiceTimeout", "Project", "Repository", "Tag"}
    assert request["Tag"] == variables(project)["TAG"] == built().tag
    assert request["Repository"] == variables(project)["REPOSITORY"] == "traingrid/orchestrator"


def test_a_build_ends_before_cloudformation_gives_it_up(images: Template) -> None:
    project = only(images, "AWS::CodeBuild::Project")
    longest = project["TimeoutInMinutes"] + project["QueuedTimeoutInMinutes"]
    assert longest * 60 < int(only(images, "Custom::ContainerImage")["ServiceTimeout"]) <= 3600


def test_a_build_may_read_its_sources_and_push_to_its_repository_and_nothing_else(images: Template) -> None:
    (repository,) = resources(images, "AWS::ECR::Repository")
    for statement in resources(images, "AWS::IAM::Policy").values():
        assert "ManagedPolicyArns" not in statement["Properties"]
    assert on(images, BUILD, "ecr:PutImage") == {f"<{repository}.Arn>"}
    free = {action for entry in statements(images, BUILD) if entry["Resource"] == ["*"] for action in entry["Action"]}
    assert free == {"ecr:GetAuthorizationToken"}
    (read,) = [entry for entry in statements(images, BUILD) if "s3:GetObject" in entry["Action"]]
    assert read["Action"] == ["s3:GetObject"]
    assert len(read["Resource"]) == 1
    assert read["Resource"][0].endswith(".zip")


def test_images_go_with_their_stack(images: Template) -> None:
    assert only(images, "AWS::ECR::Repository")["EmptyOnDelete"] is True
    assert not [name for name, made in images["Resources"].items() if made.get("DeletionPolicy") == "Retain"]


def test_codebuild_acts_for_this_account_only(images: Template) -> None:
    (role,) = [role for name, role in resources(images, "AWS::IAM::Role").items() if name.startswith(BUILD)]
    assert "ManagedPolicyArns" not in role["Properties"]
    (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert flat(statement["Condition"]["StringEquals"]["aws:SourceAccount"]) == "<AWS::AccountId>"
    pattern = flat(statement["Condition"]["ArnLike"]["aws:SourceArn"])
    assert pattern == "arn:aws:codebuild:<AWS::Region>:<AWS::AccountId>:project/*"


def test_the_builder_may_start_these_builds_and_look_for_these_images(images: Template) -> None:
    (project,) = resources(images, "AWS::CodeBuild::Project")
    (repository,) = resources(images, "AWS::ECR::Repository")
    assert on(images, "Builder", "codebuild:StartBuild") == {f"<{project}.Arn>"}
    assert on(images, "Builder", "ecr:DescribeImages") == {f"<{repository}.Arn>"}


def test_every_end_of_a_build_is_told(images: Template) -> None:
    rule = only(images, "AWS::Events::Rule")
    detail = rule["EventPattern"]["detail"]
    (project,) = resources(images, "AWS::CodeBuild::Project")
    assert detail["project-name"] == [{"Ref": project}]
    assert set(detail["build-status"]) == {"SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"}
    ask = resources(images, "Custom::ContainerImage").popitem()[1]
    assert set(resources(images, "AWS::Events::Rule")) < set(ask["DependsOn"])
    assert set(resources(images, "AWS::Lambda::Permission")) < set(ask["DependsOn"])


def test_another_image_is_another_template_of_the_control_plane(layer: Path, tmp_path: Path) -> None:
    """The digest comes from another stack: a template that only refers to it would not change with it."""
    found = synthesise(a_grid(1), layer, tmp_path)
    definition = only(found["traingrid-control"], "AWS::Batch::JobDefinition")
    request = only(found["traingrid-images"], "Custom::ContainerImage")
    assert definition["Tags"]["traingrid:image"] == request["Tag"]
    joined = json.dumps(definition["ContainerProperties"]["Image"])
    assert "/traingrid/orchestrator@" in joined
    assert '"Fn::GetStackOutput": {"StackName": "traingrid-images"' in joined


def test_an_image_that_is_pushed_by_hand_is_not_built(layer: Path, tmp_path: Path) -> None:
    found = synthesise(a_grid(1, orchestrator={"image_tag": "7"}), layer, tmp_path)
    assert not resources(found["traingrid-images"], "AWS::CodeBuild::Project")
    assert not resources(found["traingrid-images"], "AWS::Lambda::Function")
    assert only(found["traingrid-images"], "AWS::ECR::Repository")["RepositoryName"] == "traingrid/orchestrator"
    image = only(found["traingrid-control"], "AWS::Batch::JobDefinition")["ContainerProperties"]["Image"]
    assert flat(image) == "<AWS::AccountId>.dkr.ecr.us-east-1.amazonaws.com/traingrid/orchestrator:7"


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_script_of_a_build_is_a_shell_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")
    subprocess.run([shell, "-n", str(image_build.SCRIPT)], check=True)
