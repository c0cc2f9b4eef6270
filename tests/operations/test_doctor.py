"""The check-up: what is missing is named with the command that mends it, before a deployment and after."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcloud.isolation import user_environment
from localcloud.server import LocalCloud
from localcloud.settings import Settings
from traingrid import names
from traingrid.cli.main import cli
from traingrid.clients import client
from traingrid.errors import TraingridError

GRID = """\
name: doctored
home: us-east-1
regions:
  us-east-1:
  {region}: {{data_buckets: [{bucket}]}}
images:
  resnet: {{repository: training, tag: "1"}}
  vgg: {{build: training, target: {target}}}
job: {{image: resnet, instance_type: {kind}, instance_count: 3}}
"""
ACCOUNT = "123456789012"
IMAGE = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"})

Doctor = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A cloud in which us-west-2 grants two instances, and three jobs of it never fit."""
    quotas = [{"region": "us-west-2", "instance_type": "ml.p4d.24xlarge", "instances": 2}]
    plan = json.dumps({"quotas": quotas})
    settings = Settings(data_dir=tmp_path_factory.mktemp("doctored"), faults=plan)
    with LocalCloud(settings) as running:
        yield running


@pytest.fixture
def doctor(
    cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Give the command a grid whose second Region is `region`; return its exit status and what it printed."""
    for name, value in user_environment(cloud.endpoint_url).items():
        monkeypatch.setenv(name, value)

    def of(
        region: str = "us-west-2",
        bucket: str = "campaigns-pdx",
        manifest: str = "",
        kind: str = "ml.p4d.24xlarge",
        target: str = "cpu",
    ) -> tuple[int, str]:
        grid = tmp_path / "grid.yaml"
        grid.write_text(GRID.format(region=region, bucket=bucket, kind=kind, target=target))
        arguments = ["--grid", str(grid), "doctor"]
        if manifest:
            (tmp_path / "manifest.csv").write_text(manifest)
            arguments.append(str(tmp_path / "manifest.csv"))
        monkeypatch.setenv("COLUMNS", "250")
        try:
            cli.main(arguments, standalone_mode=False)
        except TraingridError as error:
            return error.exit_code, capsys.readouterr().out + error.what
        return 0, capsys.readouterr().out

    return of


def deploy(regions: tuple[str, ...], bucket: str) -> None:
    """Make what a deployment makes, as far as the check-up looks at it."""
    template = json.dumps({"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}})
    iam = client("iam", "us-east-1")
    for region in regions:
        client("ssm", region).put_parameter(Name=names.BOOTSTRAP, Value="21", Type="String")
        cloudformation, s3, ecr = (client(name, region) for name in ("cloudformation", "s3", "ecr"))
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        cloudformation.create_stack(StackName=names.region_stack("doctored", region), TemplateBody=template)
        for name in (names.data_bucket("doctored", ACCOUNT, region), names.output_bucket("doctored", ACCOUNT, region)):
            s3.create_bucket(Bucket=name, **where)
        trust = json.dumps({"Version": "2012-10-17", "Statement": []})
        iam.create_role(RoleName=names.execution_role("doctored", region), AssumeRolePolicyDocument=trust)
        ecr.create_repository(repositoryName="doctored/training")
        ecr.put_image(repositoryName="doctored/training", imageManifest=IMAGE, imageTag="1")
        if region != "us-east-1":
            s3.create_bucket(Bucket=bucket, **where)
        if region != "us-east-1":
            cloudformation.create_stack(StackName=names.registry_stack("doctored", region), TemplateBody=template)
    cloudformation, ecr = client("cloudformation", "us-east-1"), client("ecr", "us-east-1")
    for name in (names.control_stack("doctored"), names.guard_stack("doctored")):
        cloudformation.create_stack(StackName=name, TemplateBody=template)
    ecr.create_repository(repositoryName="doctored/orchestrator")
    digest = ecr.put_image(repositoryName="doctored/orchestrator", imageManifest=IMAGE, imageTag="built-1")["image"]
    built = {
        "OrchestratorImage": names.image_of_digest(
            ACCOUNT, "us-east-1", "doctored/orchestrator", digest["imageId"]["imageDigest"]
        ),
        "TrainingImages": json.dumps({"cpu": f"built-cpu-1@{digest['imageId']['imageDigest']}"}),
    }
    outputs = {**json.loads(template), "Outputs": {name: {"Value": value} for name, value in built.items()}}
    cloudformation.create_stack(StackName=names.images_stack("doctored"), TemplateBody=json.dumps(outputs))


def test_before_a_deployment_all_that_is_missing_has_its_command(doctor: Doctor) -> None:
    code, said = doctor()
    assert code == 1
    for mend in (
        f"us-east-1 bootstrap: npx cdk bootstrap aws://{ACCOUNT}/us-east-1",
        f"us-west-2 bootstrap: npx cdk bootstrap aws://{ACCOUNT}/us-west-2",
        "us-east-1 stack doctored-control: npx cdk deploy --all",
        "us-east-1 stack doctored-guard: npx cdk deploy --all",
        "us-east-1 stack doctored-images: npx cdk deploy --all",
        "us-west-2 stack doctored-registry-us-west-2: npx cdk deploy --all",
        "us-west-2 stack doctored-us-west-2: npx cdk deploy --all",
        "--region us-west-2 --service-code sagemaker --quota-code L-",
    ):
        assert mend in said
    assert "2 granted, and one job needs 3: it could never start" in said
    assert "bucket" not in said, "what a stack makes is not looked for where there is none"


def test_a_region_that_is_not_opted_in_is_named_and_not_looked_into(doctor: Doctor) -> None:
    code, said = doctor(region="me-central-1")
    assert code == 1
    assert "me-central-1 Region: aws account enable-region --region-name me-central-1" in said
    assert "me-central-1 bootstrap" not in said


def test_an_instance_type_that_a_region_does_not_offer_is_named(doctor: Doctor) -> None:
    code, said = doctor(kind="ml.p9.48xlarge")
    assert code == 1
    assert "us-west-2 ml.p9.48xlarge for training job usage: choose another instance type" in said


def test_quotas_are_compared_with_what_a_manifests_jobs_need(doctor: Doctor) -> None:
    line = "us-west-2,s3://campaigns-pdx/a,{}\n"
    one = "region,s3_uri,instance_count\n" + line.format(2)
    assert "2 granted, 2 needed" in doctor(manifest=one)[1]
    two = one + line.format(1)
    _, said = doctor(manifest=two)
    assert "2 granted, and all jobs at once need 3: some wait for others" in said
    assert "--desired-value 3" in said


def test_after_a_deployment_everything_is_there_but_what_was_taken_away(doctor: Doctor) -> None:
    deploy(("us-east-1", "ca-central-1"), bucket="campaigns-yul")
    code, said = doctor(region="ca-central-1", bucket="campaigns-yul")
    assert (code, "0 wrong" in said) == (0, True), said
    code, said = doctor(region="ca-central-1", bucket="campaigns-yul", target="gpu")
    assert (code, "2 wrong, 0 could not be checked" in said) == (1, True), said
    assert "ca-central-1 image vgg: npx cdk deploy --all" in said
    client("ecr", "ca-central-1").batch_delete_image(repositoryName="doctored/training", imageIds=[{"imageTag": "1"}])
    client("ecr", "us-east-1").batch_delete_image(
        repositoryName="doctored/orchestrator", imageIds=[{"imageTag": "built-1"}]
    )
    client("s3", "ca-central-1").delete_bucket(Bucket="campaigns-yul")
    client("iam", "us-east-1").delete_role(RoleName=names.execution_role("doctored", "ca-central-1"))
    code, said = doctor(region="ca-central-1", bucket="campaigns-yul")
    assert code == 1
    uri = f"{ACCOUNT}.dkr.ecr.ca-central-1.amazonaws.com/doctored/training:1"
    assert f"ca-central-1 image resnet (1): build and push it as {uri}" in said
    assert "ca-central-1 bucket campaigns-yul: create it in ca-central-1" in said
    assert "ca-central-1 role doctored-execution-ca-central-1: npx cdk deploy --all" in said
    assert re.search(
        r"us-east-1 orchestrator's image \(sha256:[0-9a-f]+\): npx cdk deploy --all, which builds it", said
    )
    assert re.search(r"ca-central-1 image vgg \(sha256:[0-9a-f]+\): npx cdk deploy --all, which builds it", said)
    assert "5 wrong" in said


def test_a_region_that_grid_yaml_has_lost_is_named_with_the_command_that_deletes_its_stacks(doctor: Doctor) -> None:
    template = json.dumps({"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}})
    cloudformation = client("cloudformation", "eu-north-1")
    for name in ("doctored-eu-north-1", "doctored-registry-eu-north-1", "somebodys-eu-north-1"):
        cloudformation.create_stack(StackName=name, TemplateBody=template)
    _, said = doctor()
    for name in ("doctored-eu-north-1", "doctored-registry-eu-north-1"):
        delete = f"aws cloudformation delete-stack --region eu-north-1 --stack-name {name}"
        assert f"eu-north-1 stack {name}: {delete}" in said
    assert "somebodys" not in said


def test_a_stack_whose_deletion_was_refused_can_be_kept_or_deleted(doctor: Doctor) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "full-of-data"}}
    cloudformation = client("cloudformation", "us-west-2")
    cloudformation.create_stack(StackName="doctored-us-west-2", TemplateBody=json.dumps({"Resources": {"B": bucket}}))
    client("s3", "us-west-2").put_object(Bucket="full-of-data", Key="k", Body=b"x")
    cloudformation.delete_stack(StackName="doctored-us-west-2")
    code, said = doctor()
    by_force = "delete-stack --region us-west-2 --stack-name doctored-us-west-2 --deletion-mode FORCE_DELETE_STACK"
    assert code == 1
    assert f"us-west-2 stack doctored-us-west-2: to keep the grid: aws cloudformation {by_force}, then npx cdk" in said
