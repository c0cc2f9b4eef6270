"""What the control stack puts into the home Region."""

import json

import pytest
from aws_cdk import assertions

from tests.stacks.templates import REGIONS, Template, environment, flat, only, resources
from traingrid.grid import Grid
from traingrid.intake import RETRY_DELAYS, WITHIN_SECONDS


@pytest.fixture
def stack(control: Template) -> assertions.Template:
    return assertions.Template.from_json(control)


def test_outputs_are_what_the_cli_reads(control: Template) -> None:
    assert set(control["Outputs"]) == {
        "ManifestBucket",
        "LedgerTable",
        "JobQueue",
        "JobDefinition",
        "IntakeFunction",
        "IntakeDeadLetterQueue",
        "ReconcileFunction",
        "LogGroup",
    }


def test_manifest_bucket_is_versioned_private_and_tells_eventbridge(control: Template) -> None:
    bucket = only(control, "AWS::S3::Bucket")
    assert flat(bucket["BucketName"]) == "traingrid-manifests-<AWS::AccountId>-us-east-1"
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["BucketEncryption"]


def test_nothing_needs_a_custom_resource(control: Template) -> None:
    kinds = {resource["Type"] for resource in control["Resources"].values()}
    assert not {kind for kind in kinds if kind.startswith("Custom::")}
    assert len(resources(control, "AWS::Lambda::Function")) == 3


def test_only_new_objects_under_manifests_reach_the_intake(control: Template) -> None:
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if rule.get("EventPattern", {}).get("source") == ["aws.s3"]]
    assert rule["EventPattern"]["detail-type"] == ["Object Created"]
    assert rule["EventPattern"]["detail"]["object"] == {"key": [{"prefix": "manifests/"}]}
    (name,) = rule["EventPattern"]["detail"]["bucket"]["name"]
    assert name["Ref"] in resources(control, "AWS::S3::Bucket")
    assert "EventBusName" not in rule


def test_state_changes_of_this_grid_reach_the_recorder_by_the_home_bus(control: Template) -> None:
    assert only(control, "AWS::Events::EventBus")["Name"] == "traingrid"
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if rule.get("EventPattern", {}).get("source") == ["aws.sagemaker"]]
    assert rule["EventPattern"]["detail"] == {"TrainingJobName": [{"prefix": "traingrid-"}]}
    assert rule["EventBusName"]["Ref"] in resources(control, "AWS::Events::EventBus")


def test_what_a_rule_cannot_deliver_and_what_a_function_fails_on_is_kept(control: Template) -> None:
    queues = resources(control, "AWS::SQS::Queue")
    for rule in resources(control, "AWS::Events::Rule").values():
        (target,) = rule["Properties"]["Targets"]
        assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] in queues
    configured = resources(control, "AWS::Lambda::EventInvokeConfig").values()
    for config in configured:
        failure = config["Properties"]["DestinationConfig"]["OnFailure"]["Destination"]
        assert failure["Fn::GetAtt"][0] in queues
        assert config["Properties"]["MaximumRetryAttempts"] == 2
    functions = {config["Properties"]["FunctionName"]["Ref"] for config in configured}
    assert functions == set(resources(control, "AWS::Lambda::Function"))


def test_the_reconciler_looks_every_five_minutes_and_is_done_before_the_next_time(control: Template) -> None:
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if "ScheduleExpression" in rule]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    (target,) = rule["Targets"]
    function = resources(control, "AWS::Lambda::Function")[target["Arn"]["Fn::GetAtt"][0]]["Properties"]
    assert function["Handler"] == "lambda.reconcile.handler"
    assert function["Timeout"] < 300


def test_a_manifest_is_tried_for_as_long_as_its_sender_waits(control: Template) -> None:
    configs = resources(control, "AWS::Lambda::EventInvokeConfig").values()
    assert {config["Properties"]["MaximumRetryAttempts"] for config in configs} == {len(RETRY_DELAYS)}
    functions = [function["Properties"] for function in resources(control, "AWS::Lambda::Function").values()]
    (intake,) = [function for function in functions if function.get("Handler") == "lambda.accept_manifest.handler"]
    assert intake["Timeout"] == WITHIN_SECONDS


@pytest.mark.parametrize(
    ("handler", "seconds", "mib"),
    [
        ("lambda.accept_manifest.handler", 60, 1769),
        ("lambda.record_job_event.handler", 60, 512),
        ("lambda.reconcile.handler", 270, 512),
    ],
)
def test_functions_run_python_311_with_the_layer(
    stack: assertions.Template, handler: str, seconds: int, mib: int
) -> None:
    stack.has_resource_properties(
        "AWS::Lambda::Function",
        {
            "Handler": handler,
            "Runtime": "python3.11",
            "MemorySize": mib,
            "Timeout": seconds,
            "Layers": assertions.Match.any_value(),
            "LoggingConfig": {"LogGroup": assertions.Match.any_value()},
        },
    )


def test_every_process_gets_the_whole_grid_and_where_its_things_are(control: Template) -> None:
    everywhere = {"TRAINGRID_GRID", "TRAINGRID_ACCOUNT", "TRAINGRID_TABLE", "TRAINGRID_MANIFEST_BUCKET"}
    intake_only = {"TRAINGRID_JOB_QUEUE", "TRAINGRID_JOB_DEFINITION"}
    found = {}
    for function in resources(control, "AWS::Lambda::Function").values():
        found[function["Properties"]["Handler"].split(".")[1]] = environment(function["Properties"])
    found["child"] = environment(only(control, "AWS::Batch::JobDefinition"))
    assert set(found["accept_manifest"]) == everywhere | intake_only
    assert set(found["record_job_event"]) == set(found["child"]) == everywhere
    for variables in found.values():
        assert list(Grid.from_environment(variables["TRAINGRID_GRID"]).regions) == list(REGIONS[:4])
        assert variables["TRAINGRID_ACCOUNT"] == "<AWS::AccountId>"


def test_a_child_is_a_quarter_of_a_vcpu_and_runs_the_orchestrators_image(control: Template) -> None:
    container = only(control, "AWS::Batch::JobDefinition")["ContainerProperties"]
    needs = {requirement["Type"]: requirement["Value"] for requirement in container["ResourceRequirements"]}
    assert needs == {"VCPU": "0.25", "MEMORY": "512"}
    assert flat(container["Image"]) == "<AWS::AccountId>.dkr.ecr.us-east-1.amazonaws.com/traingrid/orchestrator:1"
    assert container["ReadonlyRootFilesystem"] is True
    assert not container.get("Privileged")
    assert only(control, "AWS::Batch::JobDefinition")["PlatformCapabilities"] == ["FARGATE"]


def test_a_child_is_tried_again_after_75_a_kill_or_a_lost_host_and_never_after_anything_else(control: Template) -> None:
    definition = only(control, "AWS::Batch::JobDefinition")
    *again, last = definition["RetryStrategy"]["EvaluateOnExit"]
    assert last == {"Action": "EXIT", "OnReason": "*"}
    assert {entry["Action"] for entry in again} == {"RETRY"}
    assert {entry["OnExitCode"] for entry in again if "OnExitCode" in entry} == {"75", "137"}
    patterns = {entry["OnStatusReason"] for entry in again if "OnStatusReason" in entry}
    assert patterns == {"ECS is performing maintenance*", "Task failed to start*"}
    assert len(again) + 1 <= 5, "Batch takes five entries"
    assert definition["RetryStrategy"]["Attempts"] == 10
    assert definition["Timeout"] == {"AttemptDurationSeconds": 14 * 24 * 3600}


def test_the_log_of_a_child_goes_to_a_group_that_forgets(control: Template) -> None:
    logging = only(control, "AWS::Batch::JobDefinition")["ContainerProperties"]["LogConfiguration"]
    groups = resources(control, "AWS::Logs::LogGroup")
    assert logging["LogDriver"] == "awslogs"
    assert logging["Options"]["awslogs-group"]["Ref"] in groups
    assert {group["Properties"]["RetentionInDays"] for group in groups.values()} == {90}


def test_nothing_comes_into_the_network_and_only_https_goes_out(control: Template) -> None:
    group = only(control, "AWS::EC2::SecurityGroup")
    assert "SecurityGroupIngress" not in group
    assert not resources(control, "AWS::EC2::SecurityGroupIngress")
    assert [(rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in group["SecurityGroupEgress"]] == [
        ("tcp", 443, 443)
    ]
    compute = only(control, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    assert [arn["Fn::GetAtt"][0] for arn in compute["SecurityGroupIds"]] == list(
        resources(control, "AWS::EC2::SecurityGroup")
    )
    assert not resources(control, "AWS::EC2::NatGateway"), "a NAT gateway costs money while nothing runs"


def test_results_outlive_the_stack_and_the_rest_goes_with_it(control: Template) -> None:
    kept = {name for name, found in control["Resources"].items() if found.get("DeletionPolicy") == "Retain"}
    results = {*resources(control, "AWS::S3::Bucket"), *resources(control, "AWS::DynamoDB::Table")}
    assert kept == results
    assert only(control, "AWS::ECR::Repository")["EmptyOnDelete"] is True


def test_ledger_is_keyed_by_submission_and_item_and_can_be_restored(stack: assertions.Template) -> None:
    stack.has_resource_properties(
        "AWS::DynamoDB::Table",
        {
            "KeySchema": [
                {"AttributeName": "submission", "KeyType": "HASH"},
                {"AttributeName": "item", "KeyType": "RANGE"},
            ],
            "BillingMode": "PAY_PER_REQUEST",
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            "DeletionProtectionEnabled": True,
        },
    )


def test_everything_that_can_carry_a_tag_says_which_grid_it_belongs_to(control: Template) -> None:
    for kind in (
        "AWS::S3::Bucket",
        "AWS::DynamoDB::Table",
        "AWS::Lambda::Function",
        "AWS::SQS::Queue",
        "AWS::EC2::VPC",
    ):
        for found in resources(control, kind).values():
            assert {"Key": "traingrid:grid", "Value": "traingrid"} in found["Properties"]["Tags"]
    assert only(control, "AWS::Batch::JobQueue")["Tags"] == {"traingrid:grid": "traingrid"}


def test_no_template_holds_a_word_of_this_machine(control: Template) -> None:
    assert "/work" not in json.dumps(control)
    assert "/home/" not in json.dumps(control)
