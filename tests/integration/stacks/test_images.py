"""The images that a deployment builds: their sources, their tags, and the requests for them."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from stacks import image_build
from stacks.image_build import ORCHESTRATOR
from tests.integration.stacks.image_builds import ROOT, asset_with, built, variables, variables_by_target
from tests.integration.stacks.templates import Template, a_grid, assembly, flat, only, resources, synthesise
from tests.support.packages import needs


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources of the orchestrator's image, with another path and other times."""
    for source in ORCHESTRATOR.sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / source)
        else:
            (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, tmp_path / source)
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    return tmp_path


def test_the_tag_depends_only_on_the_images_inputs(checkout: Path) -> None:
    here = built().tag
    (checkout / "README.md").write_text("not in the image")
    (checkout / "traingrid/__pycache__").mkdir(exist_ok=True)
    (checkout / "traingrid/__pycache__/x.cpython-311.pyc").write_bytes(b"compiled")
    assert built(root=checkout).tag == here
    (checkout / "traingrid/names.py").write_text("CHANGED = 1\n")
    assert built(root=checkout).tag != here


def test_another_region_or_build_script_changes_the_tag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = built(replicas=("eu-west-1",)).tag
    assert built(replicas=("eu-west-1", "us-west-2")).tag != before
    assert built(replicas=("eu-west-1/210987654321",)).tag != before
    assert built(replace(ORCHESTRATOR, arguments=("EFA=1.43.0",)), replicas=("eu-west-1",)).tag != before
    script = tmp_path / "build.sh"
    script.write_text(image_build.SCRIPT.read_text() + "# better\n")
    monkeypatch.setattr(image_build, "SCRIPT", script)
    assert built(replicas=("eu-west-1",)).tag != before


def test_orchestrator_sources_are_the_files_that_its_dockerfile_copies(layer: Path) -> None:
    asset = asset_with("batch_job", assembly(a_grid(1), layer))
    assert {path.name for path in asset.iterdir()} == {"batch_job", "traingrid", "setup"}
    assert not list(asset.rglob("*.pyc"))


def test_a_deployment_requests_the_image_only_if_its_tag_changes(builds: Template) -> None:
    request = only(builds, "Custom::ContainerImage")
    project = only(builds, "AWS::CodeBuild::Project")
    assert set(request) == {"ServiceToken", "ServiceTimeout", "Project", "Repository", "Tag", "Compute"}
    assert request["Tag"] == variables(project)["TAG"] == built().tag
    assert request["Repository"] == variables(project)["REPOSITORY"] == "traingrid/orchestrator"


def test_a_build_times_out_before_cloudformation_does(builds: Template) -> None:
    project = only(builds, "AWS::CodeBuild::Project")
    longest = project["TimeoutInMinutes"] + project["QueuedTimeoutInMinutes"]
    assert longest * 60 < int(only(builds, "Custom::ContainerImage")["ServiceTimeout"]) <= 3600


def test_another_image_changes_the_control_stacks_template(layer: Path) -> None:
    """The digest is a reference to another stack, so it does not change the template."""
    found = synthesise(a_grid(1), layer)
    definition = only(found["traingrid-control"], "AWS::Batch::JobDefinition")
    request = only(found["traingrid-builds"], "Custom::ContainerImage")
    assert definition["Tags"]["traingrid:image"] == request["Tag"]
    joined = json.dumps(definition["ContainerProperties"]["Image"])
    assert "/traingrid/orchestrator@" in joined
    assert '"Fn::GetStackOutput": {"StackName": "traingrid-builds"' in joined


def test_a_manually_pushed_image_is_not_built(layer: Path) -> None:
    found = synthesise(a_grid(1, orchestrator={"image_tag": "7"}), layer)
    made = {made["Type"] for made in found["traingrid-builds"]["Resources"].values()}
    assert made == {"AWS::CloudFormation::WaitConditionHandle"}
    repositories = resources(found["traingrid-images"], "AWS::ECR::Repository").values()
    names = {repository["Properties"]["RepositoryName"] for repository in repositories}
    assert names == {"traingrid/orchestrator", "traingrid/training"}
    image = only(found["traingrid-control"], "AWS::Batch::JobDefinition")["ContainerProperties"]["Image"]
    assert flat(image) == "<AWS::AccountId>.dkr.ecr.us-east-1.amazonaws.com/traingrid/orchestrator:7"


@pytest.mark.parametrize("shell", ["bash", pytest.param("dash", marks=needs("dash"))])
@pytest.mark.parametrize("script", ["image_build.sh", "replication_wait.sh", "build_ending.sh"])
def test_the_scripts_of_a_build_are_shell_scripts(shell: str, script: str) -> None:
    subprocess.run([shell, "-n", str(ROOT / "stacks" / script)], check=True)


def test_another_rebuild_changes_the_tag_of_every_image(layer: Path, tmp_path: Path) -> None:
    def tags(rebuild: int) -> tuple[str, str, str]:
        folder = tmp_path / str(rebuild)
        folder.mkdir()
        images = {"resnet": {"build": "training", "target": "cpu"}}
        made = synthesise(a_grid(1, images=images, rebuild=rebuild), layer)
        builds = variables_by_target(made["traingrid-builds"])
        return (
            builds["orchestrator"]["TAG"],
            builds["cpu"]["TAG"],
            json.dumps(made["traingrid-control"], sort_keys=True),
        )

    assert not [tag for once, again in zip(tags(0), tags(1), strict=True) for tag in [once] if once == again]


def test_efa_and_its_checksum_are_build_arguments_and_change_the_tag(layer: Path, tmp_path: Path) -> None:
    def gpu(folder: str, **more: str) -> dict[str, str]:
        images = {"resnet": {"build": "training", "target": "gpu", **more}}
        (tmp_path / folder).mkdir()
        return variables_by_target(synthesise(a_grid(1, images=images), layer)["traingrid-builds"])["gpu"]

    newer = {"efa": "1.50.0", "efa_sha256": "2" * 64}
    plain, off, fast = gpu("plain"), gpu("off", efa="none"), gpu("fast", **newer)
    other = gpu("other", **newer | {"efa_sha256": "3" * 64})
    given = [build.get("ARGUMENTS") for build in (plain, off, fast)]
    assert given == [None, "EFA=none", f"EFA=1.50.0 EFA_SHA256={'2' * 64}"]
    assert len({build["TAG"] for build in (plain, off, fast, other)}) == 4
