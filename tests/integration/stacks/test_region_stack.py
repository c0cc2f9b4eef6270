"""The resources of a Region stack in a training Region."""

from pathlib import Path

import pytest
from aws_cdk import App, assertions

from stacks.region_stack import RegionStack
from tests.integration.stacks.templates import Template, a_grid, flat, resources, statements


@pytest.fixture
def stack(oregon: Template) -> assertions.Template:
    return assertions.Template.from_json(oregon)


def test_outputs_name_the_resources_of_the_regions_jobs(oregon: Template) -> None:
    outputs = {name: flat(output["Value"]) for name, output in oregon["Outputs"].items()}
    assert set(outputs) == {"DataBucket", "OutputBucket", "TrainingRepository", "ExecutionRole"}
    assert outputs["TrainingRepository"] == "<AWS::AccountId>.dkr.ecr.us-west-2.amazonaws.com/traingrid/training"
    assert outputs["ExecutionRole"] == "arn:aws:iam::<AWS::AccountId>:role/traingrid-execution-us-west-2"


def test_the_buckets_for_data_and_output_are_named_for_their_region(oregon: Template) -> None:
    buckets = resources(oregon, "AWS::S3::Bucket").values()
    names = {flat(bucket["Properties"]["BucketName"]) for bucket in buckets}
    assert names == {f"traingrid-{kind}-<AWS::AccountId>-us-west-2" for kind in ("data", "output")}


def test_results_are_versioned(oregon: Template) -> None:
    (output,) = [
        bucket["Properties"]
        for bucket in resources(oregon, "AWS::S3::Bucket").values()
        if "-output-" in flat(bucket["Properties"]["BucketName"])
    ]
    assert output["VersioningConfiguration"] == {"Status": "Enabled"}


def test_state_changes_go_to_the_home_bus_or_the_dead_letter_queue(oregon: Template) -> None:
    rules = {rule["Properties"]["Name"]: rule["Properties"] for rule in resources(oregon, "AWS::Events::Rule").values()}
    assert rules["traingrid-forward"]["EventPattern"] == {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Training Job State Change"],
        "detail": {"TrainingJobName": [{"prefix": "traingrid-"}]},
    }
    for rule in rules.values():
        (target,) = rule["Targets"]
        assert flat(target["Arn"]) == "arn:aws:events:us-east-1:<AWS::AccountId>:event-bus/traingrid"
        assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] in resources(oregon, "AWS::SQS::Queue")


def test_markers_in_the_regions_data_buckets_are_forwarded(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    RegionStack(app, grid=a_grid({"us-west-2": {"data_buckets": ["mine-west"]}}), region="us-west-2")
    template = app.synth().stacks[0].template
    (rule,) = [
        rule["Properties"]
        for rule in resources(template, "AWS::Events::Rule").values()
        if rule["Properties"]["Name"] == "traingrid-forward-datasets"
    ]
    detail = rule["EventPattern"]["detail"]
    assert detail["object"] == {"key": [{"suffix": "/dataset.json"}]}
    assert [flat(name) for name in detail["bucket"]["name"]] == [
        "traingrid-data-<AWS::AccountId>-us-west-2",
        "mine-west",
    ]
    (data,) = [
        bucket["Properties"]
        for bucket in resources(template, "AWS::S3::Bucket").values()
        if "-data-" in flat(bucket["Properties"]["BucketName"])
    ]
    assert data["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}


def test_the_forwarding_role_can_do_nothing_but_put_events_on_the_home_bus(oregon: Template) -> None:
    (statement,) = statements(oregon, "Forwarding")
    assert statement["Action"] == ["events:PutEvents"]
    assert statement["Resource"] == ["arn:aws:events:us-east-1:<AWS::AccountId>:event-bus/traingrid"]


def test_the_forwarding_role_is_assumed_only_for_named_rules(oregon: Template) -> None:
    (role,) = [it for name, it in resources(oregon, "AWS::IAM::Role").items() if name.startswith("Forwarding")]
    assert role["Properties"]["RoleName"] == "traingrid-events-us-west-2"
    (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    rules = "arn:aws:events:us-west-2:<AWS::AccountId>:rule/traingrid-forward"
    assert [flat(arn) for arn in statement["Condition"]["ArnLike"]["aws:SourceArn"]] == [
        rules,
        f"{rules}-queued",
        f"{rules}-datasets",
    ]
    named = {rule["Properties"]["Name"] for rule in resources(oregon, "AWS::Events::Rule").values()}
    assert named == {"traingrid-forward", "traingrid-forward-datasets"}


def test_jobs_may_pull_every_image_that_grid_yaml_names_and_no_other(tmp_path: Path) -> None:
    images = {
        "built": {"build": "training", "target": "gpu"},
        "bert": {"repository": "language", "tag": "7"},
        "dlc": {"uri": "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu"},
    }
    app = App(outdir=str(tmp_path))
    grid = a_grid(images=images, job={"image": "built", "instance_type": "ml.g5.48xlarge"})
    RegionStack(app, grid=grid, region="us-west-2")
    template = app.synth().stacks[0].template
    (pull,) = [entry for entry in statements(template, "Execution") if "ecr:BatchGetImage" in entry["Action"]]
    assert set(pull["Resource"]) == {
        "arn:aws:ecr:us-west-2:<AWS::AccountId>:repository/traingrid/language",
        "arn:aws:ecr:us-west-2:<AWS::AccountId>:repository/traingrid/training",
        "arn:aws:ecr:us-west-2:763104351884:repository/tensorflow-training",
    }


def test_a_bucket_of_grid_yaml_may_be_read_in_its_own_region_only(tmp_path: Path) -> None:
    grid = a_grid({"us-west-2": {"data_buckets": ["campaigns-pdx"]}, "eu-west-1": None})
    app = App(outdir=str(tmp_path))
    for region in grid.regions:
        RegionStack(app, grid=grid, region=region)
    readable = {
        stack.stack_name: {
            resource for entry in statements(stack.template, "Execution") for resource in entry["Resource"]
        }
        for stack in app.synth().stacks
    }
    assert "arn:aws:s3:::campaigns-pdx/*" in readable["traingrid-us-west-2"]
    assert not {resource for resource in readable["traingrid-eu-west-1"] if "campaigns-pdx" in resource}


def test_jobs_pull_only_from_registries_that_manifests_may_name(tmp_path: Path) -> None:
    registries = [
        "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow",
        "763104351884.dkr.ecr.eu-west-1.amazonaws.com",
        "111111111111.dkr.ecr.us-west-2.amazonaws.com",
    ]
    app = App(outdir=str(tmp_path))
    RegionStack(app, grid=a_grid(image_registries=registries), region="us-west-2")
    template = app.synth().stacks[0].template
    pulled = {
        resource
        for entry in statements(template, "Execution")
        if "ecr:BatchGetImage" in entry["Action"]
        for resource in entry["Resource"]
    }
    assert {resource for resource in pulled if "<AWS::AccountId>" not in resource} == {
        "arn:aws:ecr:us-west-2:763104351884:repository/tensorflow",
        "arn:aws:ecr:us-west-2:763104351884:repository/tensorflow/*",
        "arn:aws:ecr:us-west-2:111111111111:repository/*",
    }


def test_the_default_image_given_by_uri_may_be_pulled(tmp_path: Path) -> None:
    uri = "763104351884.dkr.ecr.{region}.amazonaws.com/pytorch-training:2.4-gpu"
    app = App(outdir=str(tmp_path))
    RegionStack(app, grid=a_grid(job={"image": uri, "instance_type": "ml.m5.large"}), region="us-west-2")
    (pull,) = [
        entry
        for entry in statements(app.synth().stacks[0].template, "Execution")
        if "ecr:BatchGetImage" in entry["Action"]
    ]
    assert "arn:aws:ecr:us-west-2:763104351884:repository/pytorch-training" in pull["Resource"]
