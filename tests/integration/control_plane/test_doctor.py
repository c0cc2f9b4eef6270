"""Doctor: missing resources are reported with the command that creates them, before and after a deployment."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore import xform_name

from localcloud.credentials.environments import user_environment
from localcloud.limits.quota import FARGATE_VCPUS, LAMBDA_CONCURRENCY, QUOTAS
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid import names
from traingrid.aws.clients import client
from traingrid.cli.main import cli
from traingrid.deploy.checkup.finding import build_again, with_grid_file
from traingrid.deploy.checkup.linked_roles import LINKED_ROLES
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

MAY = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}

Doctor = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A localcloud whose quota in us-west-2 is two instances, too few for a job with three."""
    quotas = [{"region": "us-west-2", "instance_type": "ml.p4d.24xlarge", "instances": 2}]
    plan = json.dumps({"quotas": quotas})
    settings = Settings(data_dir=tmp_path_factory.mktemp("doctored"), faults=plan)
    with LocalCloud(settings) as running:
        yield running


@pytest.fixture
def doctor(
    cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Return a function that runs the command on a grid with a second Region, and returns exit status and output."""
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
    """Create the resources of a deployment that the doctor checks."""
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
        iam.put_role_policy(
            RoleName=names.execution_role("doctored", region), PolicyName="p", PolicyDocument=json.dumps(MAY)
        )
        ecr.create_repository(repositoryName="doctored/training")
        ecr.put_image(repositoryName="doctored/training", imageManifest=IMAGE, imageTag="1")
        if region != "us-east-1":
            s3.create_bucket(Bucket=bucket, **where)
        if region != "us-east-1":
            cloudformation.create_stack(StackName=names.registry_stack("doctored", region), TemplateBody=template)
    cloudformation, ecr = client("cloudformation", "us-east-1"), client("ecr", "us-east-1")
    for name in (names.images_stack("doctored"), names.control_stack("doctored"), names.guard_stack("doctored")):
        cloudformation.create_stack(StackName=name, TemplateBody=template)
    queue()
    client("events", "us-east-1").create_event_bus(Name=names.event_bus("doctored"))
    accept_events()
    ecr.create_repository(repositoryName="doctored/orchestrator")
    digest = ecr.put_image(repositoryName="doctored/orchestrator", imageManifest=IMAGE, imageTag="built-1")["image"]
    built = {
        "OrchestratorImage": names.image_of_digest(
            ACCOUNT, "us-east-1", "doctored/orchestrator", digest["imageId"]["imageDigest"]
        ),
        "TrainingImages": json.dumps({"cpu": f"built-cpu-1@{digest['imageId']['imageDigest']}"}),
    }
    outputs = {**json.loads(template), "Outputs": {name: {"Value": value} for name, value in built.items()}}
    cloudformation.create_stack(StackName=names.builds_stack("doctored"), TemplateBody=json.dumps(outputs))


def accept_events() -> None:
    """Let the account put events on the grid's bus."""
    bus = {"EventBusName": names.event_bus("doctored"), "StatementId": "this-account"}
    client("events", "us-east-1").put_permission(**bus, Principal=ACCOUNT, Action="events:PutEvents")


def queue() -> None:
    """Create the grid's job queue and its compute environment."""
    batch, ec2 = client("batch", "us-east-1"), client("ec2", "us-east-1")
    resources = {
        "type": "FARGATE",
        "maxvCpus": 64,
        "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
        "securityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
    }
    environment = batch.create_compute_environment(
        computeEnvironmentName="doctored", type="MANAGED", computeResources=resources, serviceRole=""
    )["computeEnvironmentArn"]
    order = [{"order": 1, "computeEnvironment": environment}]
    batch.create_job_queue(
        jobQueueName=names.job_queue("doctored"), state="ENABLED", priority=1, computeEnvironmentOrder=order
    )


def run(command: str) -> None:
    """Run the AWS CLI command of a finding, as far as the tests need it."""
    service, operation, *options = command.partition("  #")[0].removeprefix("aws ").split()
    given = dict(zip(options[::2], options[1::2], strict=True))
    region = given.pop("--region", "us-east-1")
    model: Any = client({"s3api": "s3"}.get(service, service), region)
    method = operation.replace("-", "_")
    shape = model.meta.service_model.operation_model(model.meta.method_to_api_mapping[method]).input_shape
    by_option = {f"--{xform_name(member, '-')}": member for member in shape.members}
    arguments: dict[str, Any] = {}
    for option, text in given.items():
        name, _, value = text.partition("=")
        arguments[by_option[option]] = {name: value} if value else float(text) if text.isdigit() else text
    getattr(model, method)(**arguments)


def test_before_a_deployment_every_missing_resource_has_its_command(doctor: Doctor) -> None:
    code, output = doctor()
    assert code == 1
    for command in (
        f"us-east-1 bootstrap: npx cdk bootstrap aws://{ACCOUNT}/us-east-1",
        f"us-west-2 bootstrap: npx cdk bootstrap aws://{ACCOUNT}/us-west-2",
        "us-east-1 stack doctored-control: npx cdk deploy --all",
        "us-east-1 stack doctored-guard: npx cdk deploy --all",
        "us-east-1 stack doctored-images: npx cdk deploy --all",
        "us-east-1 stack doctored-builds: npx cdk deploy --all",
        "us-west-2 stack doctored-registry-us-west-2: npx cdk deploy --all",
        "us-west-2 stack doctored-us-west-2: npx cdk deploy --all",
        "--region us-west-2 --service-code sagemaker --quota-code L-",
    ):
        assert command in output
    assert "2 granted, but one job needs 3: it could never start" in output
    assert "bucket" not in output, "the resources of a missing stack are not checked"


def test_in_a_new_account_each_quota_and_role_has_its_command(doctor: Doctor, cloud: LocalCloud) -> None:
    iam = client("iam", "us-east-1")
    young = {quota: quota.young for quota in QUOTAS}
    for quota, value in {**young, LAMBDA_CONCURRENCY: 5, FARGATE_VCPUS: 6}.items():
        cloud.limits.set(ACCOUNT, quota, value)
    for name in LINKED_ROLES:
        iam.delete_role(RoleName=name)
    for number in range(4):  # in addition to the default VPC
        client("ec2", "us-east-1").create_vpc(CidrBlock=f"10.{number}.0.0/16")
    code, output = doctor(target="gpu")
    assert code == 1
    increase = "aws service-quotas request-service-quota-increase --region us-east-1 --service-code"
    for command in (
        f"Fargate On-Demand vCPU resource count: {increase} fargate --quota-code L-3032A538 --desired-value 64",
        f"Linux/Large environment: {increase} codebuild --quota-code L-4DDC4A99 --desired-value 1",
        f"Lambda concurrent executions: {increase} lambda --quota-code L-B99A9384 --desired-value 10",
        f"VPCs per Region: {increase} vpc --quota-code L-F678F1CE --desired-value 6",
        "role AWSServiceRoleForECS: aws iam create-service-linked-role --aws-service-name ecs.amazonaws.com",
        "role AWSServiceRoleForBatch: aws iam create-service-linked-role --aws-service-name batch.amazonaws.com",
    ):
        assert f"us-east-1 {command}" in output or command in output
        run(re.search(rf"{re.escape(command)}.*", command)[0].partition(": ")[2])  # type: ignore[index]  # None would fail the test
    assert "Linux/Small environment:" not in output, "a quota of one build suffices"
    assert "doctored: aws batch" not in output, "the grid is not deployed"
    _, output = doctor(target="gpu")
    assert "AWSServiceRoleForECS: aws" not in output
    assert "0 granted, 1 needed" in output, "the request has not been granted yet"
    cloud.limits.grant()
    _, output = doctor(target="gpu")
    assert "request-service-quota-increase --region us-east-1" not in output


def test_a_region_that_is_not_opted_in_is_reported_and_not_checked(doctor: Doctor) -> None:
    code, output = doctor(region="me-central-1")
    assert code == 1
    assert "me-central-1 Region: aws account enable-region --region-name me-central-1" in output
    assert "me-central-1 bootstrap" not in output


def test_an_instance_type_that_a_region_does_not_offer_is_reported(doctor: Doctor) -> None:
    code, output = doctor(kind="ml.p9.48xlarge")
    assert code == 1
    assert "us-west-2 ml.p9.48xlarge for training job usage: choose another instance type" in output


def test_quotas_are_compared_with_the_needs_of_a_manifests_jobs(doctor: Doctor) -> None:
    line = "us-west-2,s3://campaigns-pdx/a,{}\n"
    one = "region,s3_uri,instance_count\n" + line.format(2)
    assert "2 granted, 2 needed" in doctor(manifest=one)[1]
    two = one + line.format(1)
    _, output = doctor(manifest=two)
    assert "2 granted, but all jobs at once need 3: some wait for others" in output
    assert "--desired-value 3" in output


def test_after_a_deployment_only_removed_resources_are_reported(doctor: Doctor) -> None:
    deploy(("us-east-1", "ca-central-1"), bucket="campaigns-yul")
    code, output = doctor(region="ca-central-1", bucket="campaigns-yul")
    assert (code, "0 wrong" in output) == (0, True), output
    code, output = doctor(region="ca-central-1", bucket="campaigns-yul", target="gpu")
    assert (code, "2 wrong, 0 could not be checked" in output) == (1, True), output
    assert re.search(r"ca-central-1 image vgg: npx cdk deploy --all -c grid=\S+/grid.yaml, unless another file", output)
    assert "the deployed grid differs from" in output
    client("ecr", "ca-central-1").batch_delete_image(repositoryName="doctored/training", imageIds=[{"imageTag": "1"}])
    client("ecr", "us-east-1").batch_delete_image(
        repositoryName="doctored/orchestrator", imageIds=[{"imageTag": "built-1"}]
    )
    client("s3", "ca-central-1").delete_bucket(Bucket="campaigns-yul")
    execution = names.execution_role("doctored", "ca-central-1")
    client("iam", "us-east-1").delete_role_policy(RoleName=execution, PolicyName="p")
    client("iam", "us-east-1").delete_role(RoleName=execution)
    code, output = doctor(region="ca-central-1", bucket="campaigns-yul")
    assert code == 1
    uri = f"{ACCOUNT}.dkr.ecr.ca-central-1.amazonaws.com/doctored/training:1"
    assert f"ca-central-1 image resnet (1): build and push it as {uri}" in output
    create = "aws s3api create-bucket --region ca-central-1 --bucket campaigns-yul --create-bucket-configuration"
    assert f"ca-central-1 bucket campaigns-yul: {create} LocationConstraint=ca-central-1" in output
    revert = r"npx cdk deploy --all -c grid=\S+ --revert-drift"
    assert re.search(rf"ca-central-1 role doctored-execution-ca-central-1: {revert}", output)
    again = r"printf '\\nrebuild: 1\\n' >>\S+/grid.yaml && npx cdk deploy --all -c grid=\S+/grid.yaml\n"
    assert re.search(rf"us-east-1 orchestrator's image \(sha256:[0-9a-f]+\): {again}", output)
    assert re.search(rf"ca-central-1 image vgg \(sha256:[0-9a-f]+\): {again}", output)
    assert "5 wrong" in output
    run(re.search(r"campaigns-yul: (aws .*)", output)[1])  # type: ignore[index]  # None would fail the test
    assert "4 wrong" in doctor(region="ca-central-1", bucket="campaigns-yul")[1]


def test_a_bus_without_its_policy_is_found_even_if_it_is_gone(doctor: Doctor) -> None:
    events, name = client("events", "us-east-1"), names.event_bus("doctored")
    events.remove_permission(EventBusName=name, StatementId="this-account")
    _, output = doctor()
    assert f"its policy lacks {ACCOUNT}: no events arrive from there" in output
    assert re.search(r"us-east-1 event bus doctored: npx cdk deploy --all -c grid=\S+ --revert-drift", output)
    events.delete_event_bus(Name=name)
    assert "does not exist: only passes record the ends" in doctor()[1]
    events.create_event_bus(Name=name)
    accept_events()
    assert "event bus doctored: " not in doctor()[1]


def test_a_role_without_a_policy_and_a_disabled_queue_are_found_and_fixed(doctor: Doctor) -> None:
    batch, iam = client("batch", "us-east-1"), client("iam", "us-east-1")
    role = names.execution_role("doctored", "us-east-1")
    iam.delete_role_policy(RoleName=role, PolicyName="p")
    batch.update_job_queue(jobQueue=names.job_queue("doctored"), state="DISABLED")
    batch.update_compute_environment(computeEnvironment="doctored", state="DISABLED")
    _, output = doctor()
    assert re.search(rf"us-east-1 role {role}: npx cdk deploy --all -c grid=\S+ --revert-drift", output)
    enable = re.findall(r"(?:job queue|compute environment) doctored: (aws batch .* --state ENABLED)", output)
    assert len(enable) == 2, output
    for command in enable:
        run(command)
    assert "DISABLED" not in doctor()[1]


def test_a_command_includes_the_grid_file_unless_it_is_the_default() -> None:
    command = "delete it, then npx cdk deploy --all --revert-drift; otherwise: npx cdk destroy --all"
    access = "traingrid eks access eu-west-1 | kubectl --context research apply -f -"
    assert with_grid_file(command, Path("grid.yaml")) == command
    assert with_grid_file(command, Path("my grids/a.yaml")) == (
        "delete it, then npx cdk deploy --all -c grid='my grids/a.yaml' --revert-drift; "
        "otherwise: npx cdk destroy --all -c grid='my grids/a.yaml'"
    )
    assert with_grid_file(access, Path("grid.yaml")) == access
    assert with_grid_file(access, Path("my grids/a.yaml")) == access.replace(" eks", " --grid 'my grids/a.yaml' eks")


@pytest.mark.parametrize(("before", "after"), [("a: 1", 1), ("rebuild: 3\na: 1\n", 4)])
def test_the_command_for_a_deleted_image_changes_one_line_of_the_grid_file(
    tmp_path: Path, before: str, after: int
) -> None:
    grid = tmp_path / "my grid.yaml"
    grid.write_text(before)
    edit, _, deploys = with_grid_file(build_again(after - 1), grid).partition(" && ")
    subprocess.run(edit, shell=True, check=True)
    assert yaml.safe_load(grid.read_text()) == {"a": 1, "rebuild": after}
    assert deploys == f"npx cdk deploy --all -c grid='{grid}'"


def test_the_stacks_of_a_removed_region_have_the_command_that_deletes_them(doctor: Doctor) -> None:
    template = json.dumps({"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}})
    cloudformation = client("cloudformation", "eu-north-1")
    for name in ("doctored-eu-north-1", "doctored-registry-eu-north-1", "somebodys-eu-north-1"):
        cloudformation.create_stack(StackName=name, TemplateBody=template)
    _, output = doctor()
    for name in ("doctored-eu-north-1", "doctored-registry-eu-north-1"):
        delete = f"aws cloudformation delete-stack --region eu-north-1 --stack-name {name}"
        assert f"eu-north-1 stack {name}: {delete}" in output
    assert "somebodys" not in output


def test_a_stack_whose_deletion_failed_can_be_kept_or_deleted(doctor: Doctor) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "full-of-data"}}
    cloudformation = client("cloudformation", "us-west-2")
    cloudformation.create_stack(StackName="doctored-us-west-2", TemplateBody=json.dumps({"Resources": {"B": bucket}}))
    client("s3", "us-west-2").put_object(Bucket="full-of-data", Key="k", Body=b"x")
    cloudformation.delete_stack(StackName="doctored-us-west-2")
    code, output = doctor()
    by_force = "delete-stack --region us-west-2 --stack-name doctored-us-west-2 --deletion-mode FORCE_DELETE_STACK"
    assert code == 1
    assert (
        f"us-west-2 stack doctored-us-west-2: to keep the grid: aws cloudformation {by_force}, then npx cdk" in output
    )
