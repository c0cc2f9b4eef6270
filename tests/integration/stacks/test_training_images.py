"""The training images that a deployment builds, their replication, and the use of their digests."""

import json
from pathlib import Path
from typing import Any

import pytest
from cdk_nag import AwsSolutionsChecks

from tests.integration.stacks.image_builds import (
    REPOSITORY_ARN,
    ROOT,
    TRAINING_IMAGES,
    asset_with,
    variables,
    variables_by_target,
)
from tests.integration.stacks.templates import Template, a_grid, an_app, assembly, flat, on, only, resources, synthesise


@pytest.fixture(scope="module")
def trained(layer: Path) -> dict[str, Template]:
    """The templates of a grid with three Regions that builds two targets of the training image."""
    return synthesise(a_grid(3, **TRAINING_IMAGES), layer)


def test_each_target_is_built_once_for_any_number_of_aliases(trained: dict[str, Template]) -> None:
    found = variables_by_target(trained["traingrid-builds"])
    assert set(found) == {"orchestrator", "cpu", "gpu", "wait"}
    assert found["gpu"]["DOCKERFILE"] == found["cpu"]["DOCKERFILE"] == "training_container/Dockerfile"
    assert found["gpu"]["SOURCE"] == found["cpu"]["SOURCE"]
    assert found["gpu"]["TAG"] != found["cpu"]["TAG"]


def test_training_sources_are_the_files_that_the_dockerfile_copies(layer: Path) -> None:
    asset = asset_with("training_container", assembly(a_grid(1, **TRAINING_IMAGES), layer))
    assert {path.name for path in asset.iterdir()} == {"setup", "training_container"}
    assert {path.name for path in (asset / "setup").iterdir()} == {"cuda.sh", "efa.sh", "requirements", "training.sh"}
    groups = {"training", "training-dev", "training-gpu", "cuda-tools"}
    assert {path.stem for path in (asset / "setup/requirements").iterdir()} == groups
    for line in (ROOT / "training_container/Dockerfile").read_text().splitlines():
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (asset / source).exists(), line


def test_the_pytorch_image_is_built_from_its_own_dockerfile(layer: Path) -> None:
    grid = a_grid(1, images={"resnet": {"build": "training", "target": "torch"}})
    found = variables_by_target(synthesise(grid, layer)["traingrid-builds"])["torch"]
    assert (found["DOCKERFILE"], found["TARGET"]) == ("training_container/Dockerfile.torch", "torch")
    asset = asset_with("training_container", assembly(grid, layer))
    assert {path.name for path in asset.iterdir()} == {"setup", "training_container"}
    assert {path.name for path in (asset / "setup").iterdir()} == {"efa.sh", "requirements"}
    assert [path.name for path in (asset / "setup/requirements").iterdir()] == ["training-torch.txt"]
    for line in (ROOT / found["DOCKERFILE"]).read_text().splitlines():
        if line.startswith("COPY"):
            assert (asset / line.split()[1]).exists(), line


def test_a_deployment_waits_for_replication_to_every_region(trained: dict[str, Template]) -> None:
    images, builds = trained["traingrid-images"], trained["traingrid-builds"]
    assert variables_by_target(builds)["wait"]["REGIONS"] == "eu-west-1 us-west-2"
    waits = resources(builds, "Custom::ReplicatedImage").values()
    tags = {variables_by_target(builds)[target]["TAG"] for target in ("cpu", "gpu")}
    assert {wait["Properties"]["Tag"] for wait in waits} == tags, "each wait has its own hour"
    rules = only(images, "AWS::ECR::ReplicationConfiguration")["ReplicationConfiguration"]["Rules"]
    assert rules == [
        {
            "Destinations": [
                {"Region": region, "RegistryId": {"Ref": "AWS::AccountId"}} for region in ("us-west-2", "eu-west-1")
            ],
            "RepositoryFilters": [
                {"Filter": f"traingrid/{name}", "FilterType": "PREFIX_MATCH"} for name in ("theirs", "training")
            ],
        }
    ]
    (wait,) = [role for role in resources(builds, "AWS::IAM::Role") if role.startswith("ReplicationWait")]
    assert on(builds, wait, "ecr:DescribeImages") == {
        f"arn:aws:ecr:{region}:<AWS::AccountId>:repository/traingrid/training"
        for region in ("<AWS::Region>", "eu-west-1", "us-west-2")
    }
    assert on(builds, "TrainingBuildgpuRole", "ecr:DescribeImages") == {
        REPOSITORY_ARN.replace("orchestrator", "training")
    }
    (project,) = [
        each["Properties"]
        for each in resources(builds, "AWS::CodeBuild::Project").values()
        if "REGIONS" in variables(each["Properties"])
    ]
    assert project["Environment"]["PrivilegedMode"] is False
    assert project["Environment"]["ComputeType"] == "BUILD_GENERAL1_SMALL"


def test_builds_run_one_after_the_other(trained: dict[str, Template]) -> None:
    """CloudFormation creates independent resources concurrently, but a new account may run only one build."""
    builds = trained["traingrid-builds"]
    kinds = ("Custom::ContainerImage", "Custom::ReplicatedImage")
    requests = {name: made for kind in kinds for name, made in resources(builds, kind).items()}
    after = {name: set(made["DependsOn"]) & set(requests) for name, made in requests.items()}
    assert len(requests) == 5
    assert sorted(len(before) for before in after.values()) == [0, 1, 1, 1, 1]
    assert len(set.union(*after.values())) == 4, "each precedes one other: a chain"


def test_every_region_has_its_repositories_before_anything_is_replicated(layer: Path) -> None:
    by_name = {stack.stack_name: stack for stack in assembly(a_grid(3, **TRAINING_IMAGES), layer).stacks}
    before = {
        name: {needed.id for needed in stack.dependencies if needed.id in by_name} for name, stack in by_name.items()
    }
    assert before["traingrid-images"] == {"traingrid-registry-us-west-2", "traingrid-registry-eu-west-1"}
    assert before["traingrid-builds"] == {"traingrid-images"}
    assert before["traingrid-control"] == {"traingrid-builds"}
    for region in ("us-west-2", "eu-west-1"):
        template = by_name[f"traingrid-registry-{region}"].template
        for repository in resources(template, "AWS::ECR::Repository").values():
            assert repository["Properties"]["ImageTagMutability"] == "IMMUTABLE"
            assert repository["Properties"]["ImageScanningConfiguration"] == {"ScanOnPush": True}
        names = {each["Properties"]["RepositoryName"] for each in resources(template, "AWS::ECR::Repository").values()}
        assert names == {"traingrid/training", "traingrid/theirs"}


def test_without_replicate_images_the_replication_rule_is_an_output(layer: Path) -> None:
    found = synthesise(a_grid(2, **TRAINING_IMAGES, replicate_images=False), layer)
    images = found["traingrid-images"]
    assert not resources(images, "AWS::ECR::ReplicationConfiguration")
    rule = json.loads(flat(images["Outputs"]["ReplicationRule"]["Value"]))
    assert rule["destinations"] == [{"region": "us-west-2", "registryId": "<AWS::AccountId>"}]
    assert variables_by_target(found["traingrid-builds"])["wait"]["REGIONS"] == "us-west-2", (
        "the deployment waits anyway"
    )


def test_a_grid_of_one_region_replicates_nothing(layer: Path) -> None:
    found = synthesise(a_grid(1, **TRAINING_IMAGES), layer)
    assert not resources(found["traingrid-images"], "AWS::ECR::ReplicationConfiguration")
    assert set(found) == {
        *("traingrid-images", "traingrid-builds", "traingrid-control"),
        *("traingrid-us-east-1", "traingrid-guard"),
    }
    assert not resources(found["traingrid-builds"], "Custom::ReplicatedImage")


def test_every_process_gets_the_digests_of_built_images(trained: dict[str, Template]) -> None:
    control = trained["traingrid-control"]
    tags = {
        target: each["TAG"]
        for target, each in variables_by_target(trained["traingrid-builds"]).items()
        if "TAG" in each
    }
    processes = [
        *resources(control, "AWS::Lambda::Function").values(),
        *resources(control, "AWS::Batch::JobDefinition").values(),
    ]
    assert len(processes) == 6
    for each in processes:
        written = json.dumps(each).replace("\\", "")
        for target in ("cpu", "gpu"):
            assert f'"{target}": "{tags[target]}@' in written
        assert written.count('"Fn::GetStackOutput"') >= 2


@pytest.mark.parametrize("grid", [TRAINING_IMAGES, {"replicate_images": False, **TRAINING_IMAGES}])
def test_cdk_nag_has_no_unacknowledged_findings_in_images(layer: Path, tmp_path: Path, grid: dict[str, Any]) -> None:
    app = an_app(a_grid(2, **grid), layer, tmp_path)
    report = AwsSolutionsChecks(app).validate_scope(app)
    assert [f"{violation.rule_name}: {violation.description}" for violation in report.violations] == []
