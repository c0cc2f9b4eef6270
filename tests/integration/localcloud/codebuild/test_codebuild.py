"""Builds that run their buildspec's commands, and custom resources that wait for a function's response."""

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, role, wait_until

DOCKERFILE = (
    "ARG BASE=debian\nFROM ${BASE} AS first\nFROM first AS second\n"
    "COPY --from=first /a /b\nCOPY batch_job/main.py \\\n  requirements.txt ./\n"
)
FILES = {"batch_job/Dockerfile": DOCKERFILE, "batch_job/main.py": "pass", "requirements.txt": ""}
BUILD = """\
aws s3 cp --only-show-errors "$SOURCE" s.zip && unzip -q s.zip -d s
aws ecr get-login-password | docker login --username AWS --password-stdin "$REGISTRY"
docker buildx build --platform linux/amd64 --file "s/batch_job/Dockerfile" ${TARGET:+--target $TARGET} --tag "$IMAGE" s
docker push "$IMAGE"
"""
REGISTRY = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com"


@pytest.fixture(scope="module")
def bucket(client: Callable[..., Any]) -> str:
    client("s3").create_bucket(Bucket="sources")
    client("ecr").create_repository(repositoryName="grid/orchestrator", imageTagMutability="IMMUTABLE")
    return "sources"


def upload(client: Callable[..., Any], bucket: str, files: dict[str, str]) -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    client("s3").put_object(Bucket=bucket, Key="s.zip", Body=packed.getvalue())
    return f"s3://{bucket}/s.zip"


def run(client: Callable[..., Any], commands: list[str], **variables: str) -> tuple[str, str]:
    """Run a build of a new project; return its status and its log."""
    builds, name = client("codebuild"), f"project-{len(client('codebuild').list_projects()['projects'])}"
    spec = {"version": "0.2", "phases": {"build": {"commands": commands}}}
    builds.create_project(
        name=name,
        source={"type": "NO_SOURCE", "buildspec": json.dumps(spec)},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "computeType": "BUILD_GENERAL1_SMALL",
            "image": "aws/codebuild/standard:7.0",
            "environmentVariables": [{"name": "REGISTRY", "value": REGISTRY}, {"name": "COLOUR", "value": "red"}],
        },
        serviceRole=role(client("iam"), "builder", "codebuild.amazonaws.com"),
    )
    given = [{"name": key, "value": value, "type": "PLAINTEXT"} for key, value in variables.items()]
    build = builds.start_build(projectName=name, environmentVariablesOverride=given)["build"]

    def ended() -> Any:
        found = builds.batch_get_builds(ids=[build["id"]])["builds"][0]
        return found if found["buildStatus"] != "IN_PROGRESS" else None

    state = wait_until(ended)  # each command of a build starts a Python that imports boto3
    group, stream = f"/aws/codebuild/{name}", build["id"].partition(":")[2]
    events = client("logs").get_log_events(logGroupName=group, logStreamName=stream)["events"]
    return state["buildStatus"], "\n".join(event["message"] for event in events)


def test_build_commands_share_a_shell_and_get_project_and_build_variables(client: Callable[..., Any]) -> None:
    commands = ["word=shared", 'echo "$word $COLOUR $MORE"', 'echo "${AWS_SESSION_TOKEN:+with the role}"']
    assert run(client, commands, COLOUR="green", MORE="more") == ("SUCCEEDED", "shared green more\nwith the role")


def test_a_program_that_starts_often_does_not_import_the_services() -> None:
    names = ("localcloud.codebuild.aws", "localcloud.codebuild.docker", "localcloud.server.print_token")
    program = f"import {', '.join(names)}, sys; assert 'moto' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_first_failed_command_ends_a_build(client: Callable[..., Any]) -> None:
    assert run(client, ["echo one", "false", "echo two"]) == ("FAILED", "one")


def test_an_image_is_built_from_the_sources_and_pushed(client: Callable[..., Any], bucket: str) -> None:
    source = upload(client, bucket, FILES)
    status, log = run(client, BUILD.splitlines(), SOURCE=source, IMAGE=f"{REGISTRY}/grid/orchestrator:a")
    assert status == "SUCCEEDED", log
    other = upload(client, bucket, {**FILES, "requirements.txt": "boto3"})
    status, log = run(client, BUILD.splitlines(), SOURCE=other, IMAGE=f"{REGISTRY}/grid/orchestrator:b")
    found = client("ecr").describe_images(repositoryName="grid/orchestrator")["imageDetails"]
    digests = {tag: image["imageDigest"] for image in found for tag in image["imageTags"]}
    assert set(digests) == {"a", "b"}
    assert digests["a"] != digests["b"]
    assert f"b: digest: {digests['b']}" in log


@pytest.mark.parametrize(
    ("files", "target", "words"),
    [
        ({"batch_job/main.py": None}, "", "batch_job/main.py is not in the build context"),
        ({"requirements.txt": None}, "", "requirements.txt is not in the build context"),
        ({}, "third", "target stage third could not be found; the stages are first, second"),
        ({"batch_job/Dockerfile": None}, "", "batch_job/Dockerfile: no such file"),
    ],
)
def test_a_missing_source_or_target_fails_the_build(
    client: Callable[..., Any], bucket: str, files: dict[str, None], target: str, words: str
) -> None:
    source = upload(client, bucket, {name: text for name, text in FILES.items() if name not in files})
    image = f"{REGISTRY}/grid/orchestrator:c"
    status, log = run(client, BUILD.splitlines(), SOURCE=source, TARGET=target, IMAGE=image)
    assert status == "FAILED"
    assert words in log


def test_an_existing_immutable_tag_cannot_be_pushed_again(client: Callable[..., Any], bucket: str) -> None:
    source = upload(client, bucket, {**FILES, "batch_job/main.py": "again"})
    commands = [*BUILD.splitlines(), "echo again >>s/requirements.txt", *BUILD.splitlines()[2:]]
    status, log = run(client, commands, SOURCE=source, IMAGE=f"{REGISTRY}/grid/orchestrator:d")
    assert status == "FAILED"
    assert "already exists in the" in log


FUNCTION = """
import json, urllib.request
def handler(event, context):
    asked = event["ResourceProperties"]
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"Status": asked["Status"], "Reason": "because", "PhysicalResourceId": asked["Name"]}
    answer["Data"] = {"Told": json.dumps([event["RequestType"], asked, event.get("PhysicalResourceId")])}
    print(event["RequestType"], event.get("PhysicalResourceId", ""))
    request = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT")
    urllib.request.urlopen(request)
"""


@pytest.fixture(scope="module")
def token(client: Callable[..., Any]) -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("custom.py", FUNCTION)
    made = client("lambda").create_function(
        FunctionName="custom",
        Runtime="python3.11",
        Role=role(client("iam"), "custom", "lambda.amazonaws.com"),
        Handler="custom.handler",
        Code={"ZipFile": packed.getvalue()},
        Timeout=10,
    )
    return str(made["FunctionArn"])


def template(token: str, name: str, status: str = "SUCCESS") -> str:
    properties = {
        "ServiceToken": token,
        "ServiceTimeout": "20",
        "Name": name,
        "Status": status,
        "Number": 5,
        "Yes": True,
    }
    made = {"Type": "Custom::Thing", "Properties": properties}
    attribute = {"Value": {"Fn::GetAtt": ["C", "Told"]}}
    return json.dumps({"Resources": {"C": made}, "Outputs": {"Told": attribute, "Id": {"Value": {"Ref": "C"}}}})


def outputs(client: Callable[..., Any], name: str) -> dict[str, str]:
    found = client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}


def asked(client: Callable[..., Any]) -> list[str]:
    events = client("logs").filter_log_events(logGroupName="/aws/lambda/custom")["events"]
    words = ("Create", "Update", "Delete")
    return [event["message"].strip() for event in events if event["message"].startswith(words)]


def test_a_custom_resource_has_the_id_and_data_of_its_function(
    cloud: LocalCloud, client: Callable[..., Any], token: str
) -> None:
    stacks = client("cloudformation")
    stacks.create_stack(StackName="custom", TemplateBody=template(token, "one"))
    assert outputs(client, "custom")["Id"] == "one"
    kind, properties, _ = json.loads(outputs(client, "custom")["Told"])
    assert (kind, properties["Number"], properties["Yes"]) == ("Create", "5", "true")
    stacks.update_stack(StackName="custom", TemplateBody=template(token, "two"))
    assert json.loads(outputs(client, "custom")["Told"])[0::2] == ["Update", "one"]
    stacks.delete_stack(StackName="custom")
    wait_until(lambda: len(asked(client)) == 4)
    assert sorted(asked(client)) == ["Create", "Delete one", "Delete two", "Update one"]  # log order is undefined


def test_a_failed_custom_resource_fails_the_stack_with_its_reason(client: Callable[..., Any], token: str) -> None:
    stacks = client("cloudformation")
    stacks.create_stack(StackName="failing", TemplateBody=template(token, "x", "FAILED"))
    found = stacks.describe_stacks(StackName="failing")["Stacks"][0]
    assert found["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "Message returned: because" in found["StackStatusReason"]


def test_a_stack_can_use_the_output_of_another_stack(client: Callable[..., Any]) -> None:
    stacks = client("cloudformation")
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "giver"}}
    giver = {"Resources": {"Q": queue}, "Outputs": {"Name": {"Value": {"Fn::GetAtt": ["Q", "QueueName"]}}}}
    stacks.create_stack(StackName="giver", TemplateBody=json.dumps(giver))

    def taker(output: str) -> str:
        name = {"Fn::Join": ["-", ["of", {"Fn::GetStackOutput": {"StackName": "giver", "OutputName": output}}]]}
        made = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}
        return json.dumps({"Resources": {"Q": made}})

    stacks.create_stack(StackName="taker", TemplateBody=taker("Name"))
    assert client("sqs").get_queue_url(QueueName="of-giver")
    stacks.create_stack(StackName="other", TemplateBody=taker("Nothing"))
    reason = stacks.describe_stacks(StackName="other")["Stacks"][0]["StackStatusReason"]
    assert "Stack giver has no output Nothing" in reason
