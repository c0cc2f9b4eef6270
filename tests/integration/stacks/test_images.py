"""The images that a deployment builds: their inputs, the permissions of builds, and the use of the results."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.cx_api import CloudAssembly
from cdk_nag import AwsSolutionsChecks

from stacks import image_build
from stacks.image_build import ORCHESTRATOR, ImageBuild, Recipe
from tests.integration.stacks.templates import (
    Template,
    a_grid,
    an_app,
    assembly,
    flat,
    on,
    only,
    resources,
    statements,
    synthesise,
)
from tests.support.packages import needs

ROOT = Path(__file__).resolve().parents[3]
BUILD = "OrchestratorBuildRole"


@pytest.fixture(scope="module")
def made(layer: Path) -> dict[str, Template]:
    """The templates of a grid with two Regions that only builds the orchestrator's image."""
    return synthesise(a_grid(2), layer)


@pytest.fixture(scope="module")
def builds(made: dict[str, Template]) -> Template:
    return made["traingrid-builds"]


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


def asset_with(folder: str, synthesised: CloudAssembly) -> Path:
    """Return the asset that has a folder."""
    (asset,) = [path for path in Path(synthesised.directory).glob("asset.*") if (path / folder).is_dir()]
    return asset


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


OURS = "arn:aws:ecr:<AWS::Region>:<AWS::AccountId>:repository/traingrid/orchestrator"


def test_a_build_may_only_read_its_sources_push_its_image_and_report(
    builds: Template,
) -> None:
    for statement in resources(builds, "AWS::IAM::Policy").values():
        assert "ManagedPolicyArns" not in statement["Properties"]
    assert on(builds, BUILD, "ecr:PutImage") == {OURS}
    free = {action for entry in statements(builds, BUILD) if entry["Resource"] == ["*"] for action in entry["Action"]}
    assert free == {"ecr:GetAuthorizationToken"}
    (read,) = [entry for entry in statements(builds, BUILD) if "s3:GetObject" in entry["Action"]]
    assert read["Action"] == ["s3:GetObject"]
    assert len(read["Resource"]) == 1
    assert read["Resource"][0].endswith(".zip")
    (put,) = [entry for entry in statements(builds, BUILD) if "events:PutEvents" in entry["Action"]]
    assert put["Resource"] == ["arn:aws:events:<AWS::Region>:<AWS::AccountId>:event-bus/default"]
    assert put["Condition"] == {
        "ForAllValues:StringEquals": {"events:source": ["traingrid.builds"]},
        "Null": {"events:source": "false"},
    }


def test_images_are_deleted_with_their_stack_but_not_by_a_failed_build(made: dict[str, Template]) -> None:
    images, builds = made["traingrid-images"], made["traingrid-builds"]
    for repository in resources(images, "AWS::ECR::Repository").values():
        assert repository["Properties"]["EmptyOnDelete"] is True
    for template in (images, builds):
        assert not [name for name, it in template["Resources"].items() if it.get("DeletionPolicy") == "Retain"]
    assert not resources(builds, "AWS::ECR::Repository")
    assert not [kind for kind in {it["Type"] for it in images["Resources"].values()} if "Custom" in kind]


def test_the_log_of_a_failed_build_survives_the_rollback(made: dict[str, Template]) -> None:
    group = only(made["traingrid-images"], "AWS::Logs::LogGroup")["LogGroupName"]
    project = only(made["traingrid-builds"], "AWS::CodeBuild::Project")
    assert project["LogsConfig"]["CloudWatchLogs"]["GroupName"] == group == "/traingrid/builds"
    stream = "arn:aws:logs:<AWS::Region>:<AWS::AccountId>:log-group:/traingrid/builds:log-stream:OrchestratorBuild/*"
    assert on(made["traingrid-builds"], BUILD, "logs:PutLogEvents") == {stream}


def test_codebuild_acts_for_this_account_only(builds: Template) -> None:
    (role,) = [role for name, role in resources(builds, "AWS::IAM::Role").items() if name.startswith(BUILD)]
    assert "ManagedPolicyArns" not in role["Properties"]
    (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert flat(statement["Condition"]["StringEquals"]["aws:SourceAccount"]) == "<AWS::AccountId>"
    pattern = flat(statement["Condition"]["ArnLike"]["aws:SourceArn"])
    assert pattern == "arn:aws:codebuild:<AWS::Region>:<AWS::AccountId>:project/*"


def test_the_builder_may_start_these_builds_and_describe_these_images(builds: Template) -> None:
    (project,) = resources(builds, "AWS::CodeBuild::Project")
    for action in ("codebuild:StartBuild", "codebuild:BatchGetBuilds"):
        assert on(builds, "Builder", action) == {f"<{project}.Arn>"}
    assert on(builds, "Builder", "ecr:DescribeImages") == {OURS}


def test_the_builder_receives_every_end_of_a_build(builds: Template) -> None:
    rule = only(builds, "AWS::Events::Rule")
    detail = rule["EventPattern"]["detail"]
    (project,) = resources(builds, "AWS::CodeBuild::Project")
    assert detail["project-name"] == [{"Ref": project}]
    assert set(detail["build-status"]) == {"ENDING", "SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"}
    assert set(rule["EventPattern"]["source"]) == {"aws.codebuild", "traingrid.builds"}
    assert set(rule["EventPattern"]["detail-type"]) == {"CodeBuild Build State Change", "Build Ending"}
    ask = resources(builds, "Custom::ContainerImage").popitem()[1]
    assert set(resources(builds, "AWS::Events::Rule")) < set(ask["DependsOn"])
    assert set(resources(builds, "AWS::Lambda::Permission")) < set(ask["DependsOn"])


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


TRAINED = {
    "images": {
        "resnet": {"build": "training", "target": "gpu"},
        "small": {"build": "training", "target": "cpu"},
        "again": {"build": "training", "target": "gpu"},
        "theirs": {"repository": "theirs", "tag": "3"},
    }
}


@pytest.fixture(scope="module")
def trained(layer: Path) -> dict[str, Template]:
    """The templates of a grid with three Regions that builds two targets of the training image."""
    return synthesise(a_grid(3, **TRAINED), layer)


def by_target(builds: Template) -> dict[str, dict[str, str]]:
    """Return the variables of each project: of builds by target, of the wait by "wait"."""
    projects = resources(builds, "AWS::CodeBuild::Project").values()
    found = [variables(project["Properties"]) for project in projects]
    return {each.get("TARGET", "wait" if "REGIONS" in each else "orchestrator"): each for each in found}


def test_each_target_is_built_once_for_any_number_of_aliases(trained: dict[str, Template]) -> None:
    found = by_target(trained["traingrid-builds"])
    assert set(found) == {"orchestrator", "cpu", "gpu", "wait"}
    assert found["gpu"]["DOCKERFILE"] == found["cpu"]["DOCKERFILE"] == "training_container/Dockerfile"
    assert found["gpu"]["SOURCE"] == found["cpu"]["SOURCE"]
    assert found["gpu"]["TAG"] != found["cpu"]["TAG"]


def test_training_sources_are_the_files_that_the_dockerfile_copies(layer: Path) -> None:
    asset = asset_with("training_container", assembly(a_grid(1, **TRAINED), layer))
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
    found = by_target(synthesise(grid, layer)["traingrid-builds"])["torch"]
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
    assert by_target(builds)["wait"]["REGIONS"] == "eu-west-1 us-west-2"
    waits = resources(builds, "Custom::ReplicatedImage").values()
    tags = {by_target(builds)[target]["TAG"] for target in ("cpu", "gpu")}
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
    assert on(builds, "TrainingBuildgpuRole", "ecr:DescribeImages") == {OURS.replace("orchestrator", "training")}
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
    by_name = {stack.stack_name: stack for stack in assembly(a_grid(3, **TRAINED), layer).stacks}
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
    found = synthesise(a_grid(2, **TRAINED, replicate_images=False), layer)
    images = found["traingrid-images"]
    assert not resources(images, "AWS::ECR::ReplicationConfiguration")
    rule = json.loads(flat(images["Outputs"]["ReplicationRule"]["Value"]))
    assert rule["destinations"] == [{"region": "us-west-2", "registryId": "<AWS::AccountId>"}]
    assert by_target(found["traingrid-builds"])["wait"]["REGIONS"] == "us-west-2", "the deployment waits anyway"


def test_a_grid_of_one_region_replicates_nothing(layer: Path) -> None:
    found = synthesise(a_grid(1, **TRAINED), layer)
    assert not resources(found["traingrid-images"], "AWS::ECR::ReplicationConfiguration")
    assert set(found) == {
        *("traingrid-images", "traingrid-builds", "traingrid-control"),
        *("traingrid-us-east-1", "traingrid-guard"),
    }
    assert not resources(found["traingrid-builds"], "Custom::ReplicatedImage")


def test_every_process_gets_the_digests_of_built_images(trained: dict[str, Template]) -> None:
    control = trained["traingrid-control"]
    tags = {target: each["TAG"] for target, each in by_target(trained["traingrid-builds"]).items() if "TAG" in each}
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


@pytest.mark.parametrize("grid", [TRAINED, {"replicate_images": False, **TRAINED}])
def test_cdk_nag_has_no_unacknowledged_findings_in_images(layer: Path, tmp_path: Path, grid: dict[str, Any]) -> None:
    app = an_app(a_grid(2, **grid), layer, tmp_path)
    report = AwsSolutionsChecks(app).validate_scope(app)
    assert [f"{violation.rule_name}: {violation.description}" for violation in report.violations] == []


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
        builds = by_target(made["traingrid-builds"])
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
        return by_target(synthesise(a_grid(1, images=images), layer)["traingrid-builds"])["gpu"]

    newer = {"efa": "1.50.0", "efa_sha256": "2" * 64}
    plain, off, fast = gpu("plain"), gpu("off", efa="none"), gpu("fast", **newer)
    other = gpu("other", **newer | {"efa_sha256": "3" * 64})
    given = [build.get("ARGUMENTS") for build in (plain, off, fast)]
    assert given == [None, "EFA=none", f"EFA=1.50.0 EFA_SHA256={'2' * 64}"]
    assert len({build["TAG"] for build in (plain, off, fast, other)}) == 4


def test_the_customer_key_of_a_bootstrap_lets_every_role_of_the_account_read_assets_through_s3() -> None:
    """The build roles have no permission for this key: its own policy allows the whole account, so none is needed."""
    template = (ROOT / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml").read_text()
    key = template[template.index("FileAssetsBucketEncryptionKey:") : template.index("Condition: CreateNewKey")]
    (everyone,) = (entry for entry in key.split("- Action:") if 'AWS: "*"' in entry)
    assert "kms:Decrypt" in everyone
    assert re.findall(r"kms:CallerAccount|kms:ViaService", everyone) == ["kms:CallerAccount", "kms:ViaService"]
