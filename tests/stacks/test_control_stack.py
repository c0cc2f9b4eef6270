"""What the control stack puts into the home Region."""

import json
from typing import Any

import pytest
from aws_cdk import assertions

from localcloud.batch.retries import Outcome, problem_with, should_retry
from tests.stacks.templates import REGIONS, Template, environment, flat, only, resources
from traingrid import names
from traingrid.failures import FAILURES
from traingrid.grid import Grid
from traingrid.intake import WITHIN_SECONDS
from traingrid.intake_failure import RETRY_DELAYS


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


def test_only_the_question_about_regions_needs_a_custom_resource(control: Template) -> None:
    kinds = {resource["Type"] for resource in control["Resources"].values()}
    assert {kind for kind in kinds if kind.startswith("Custom::")} == {names.REGIONS_QUESTION}
    assert len(resources(control, "AWS::Lambda::Function")) == 4


def test_only_new_objects_under_manifests_reach_the_intake(control: Template) -> None:
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if rule.get("EventPattern", {}).get("source") == ["aws.s3"]]
    assert rule["EventPattern"]["detail-type"] == ["Object Created"]
    assert rule["EventPattern"]["detail"]["object"] == {"key": [{"prefix": "manifests/"}]}
    (name,) = rule["EventPattern"]["detail"]["bucket"]["name"]
    assert name["Ref"] in resources(control, "AWS::S3::Bucket")
    assert "EventBusName" not in rule


def test_no_rule_is_told_of_a_manifest_that_somebody_submits_by_hand(control: Template) -> None:
    rules = [rule["Properties"].get("EventPattern", {}) for rule in resources(control, "AWS::Events::Rule").values()]
    prefixes = [key["prefix"] for rule in rules for key in rule.get("detail", {}).get("object", {}).get("key", [])]
    assert prefixes
    assert not [prefix for prefix in prefixes if f"{names.BY_HAND_PREFIX}x.csv".startswith(prefix)]


def test_state_changes_of_this_grid_reach_the_recorder_by_the_home_bus(control: Template) -> None:
    assert only(control, "AWS::Events::EventBus")["Name"] == "traingrid"
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if rule.get("EventPattern", {}).get("source") == ["aws.sagemaker"]]
    assert rule["EventPattern"]["detail"] == {"TrainingJobName": [{"prefix": "traingrid-"}]}
    assert rule["EventBusName"]["Ref"] in resources(control, "AWS::Events::EventBus")


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
        ("lambda.guard_regions.handler", 300, 512),
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
            "LoggingConfig": {"LogGroup": assertions.Match.any_value(), "LogFormat": "JSON"},
            "TracingConfig": {"Mode": "Active"},
        },
    )


def test_every_process_gets_the_whole_grid_and_where_its_things_are(control: Template) -> None:
    everywhere = {
        "TRAINGRID_GRID",
        "TRAINGRID_ACCOUNT",
        "TRAINGRID_TABLE",
        "TRAINGRID_MANIFEST_BUCKET",
        "TRAINGRID_IMAGES",
        "TRAINGRID_FRAMEWORKS",
    }
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


def test_a_submission_names_the_revision_so_that_an_upgrade_leaves_it_as_it_was(control: Template) -> None:
    """`Ref` of a job definition is its ARN with the revision; the bare name would be whatever is the latest."""
    (definition,) = resources(control, "AWS::Batch::JobDefinition")
    for function in resources(control, "AWS::Lambda::Function").values():
        variables = environment(function["Properties"])
        assert variables.get("TRAINGRID_JOB_DEFINITION", f"<{definition}>") == f"<{definition}>"


def test_a_child_is_a_quarter_of_a_vcpu_and_writes_no_file(control: Template) -> None:
    container = only(control, "AWS::Batch::JobDefinition")["ContainerProperties"]
    needs = {requirement["Type"]: requirement["Value"] for requirement in container["ResourceRequirements"]}
    assert needs == {"VCPU": "0.25", "MEMORY": "512"}
    assert only(control, "AWS::Batch::JobDefinition")["PlatformCapabilities"] == ["FARGATE"]


def tried_again(control: Template, attempt: int = 1, **ended: Any) -> bool:
    """Return whether Batch starts a child again that has ended so."""
    definition = only(control, "AWS::Batch::JobDefinition")["RetryStrategy"]
    entries = [
        {name[0].lower() + name[1:]: value for name, value in entry.items()} for entry in definition["EvaluateOnExit"]
    ]
    strategy = {"attempts": definition["Attempts"], "evaluateOnExit": entries}
    assert problem_with(strategy) is None
    said = {"exit_code": None, "reason": None, "status_reason": "Essential container in task exited"}
    return should_retry(strategy, attempt, Outcome(**{**said, **ended}))


@pytest.mark.parametrize("code", [1, 2, 143])
def test_a_child_that_says_that_trying_again_is_useless_is_not_tried_again(control: Template, code: int) -> None:
    assert not tried_again(control, exit_code=code)


@pytest.mark.parametrize("code", [75, 137, 139, 10, 14, 255])
def test_a_child_that_ends_otherwise_is_tried_again_ten_times_in_all(control: Template, code: int) -> None:
    assert tried_again(control, exit_code=code)
    assert not tried_again(control, attempt=10, exit_code=code)


@pytest.mark.parametrize(
    "ended",
    [
        {"status_reason": "Timeout waiting for network interface provisioning to complete."},
        {"status_reason": "ResourceInitializationError: unable to pull secrets or registry auth"},
        {"status_reason": "Task failed to start", "reason": "CannotPullContainerError: i/o timeout"},
        {"status_reason": "ECS is performing maintenance on the underlying infrastructure hosting the task."},
        {"status_reason": "Unexpected EC2 error while attempting to tag the network interface"},
    ],
)
def test_a_child_that_fargate_does_not_start_or_keep_is_tried_again(control: Template, ended: dict[str, Any]) -> None:
    assert tried_again(control, **ended)


def test_every_way_in_which_a_line_fails_ends_its_child_for_good_or_is_tried_again(control: Template) -> None:
    codes = {failure.exit_code for failure in FAILURES.values()}
    assert {code for code in codes if tried_again(control, exit_code=code)} == {75}


def test_a_child_runs_for_as_long_as_fargate_keeps_it(control: Template) -> None:
    assert only(control, "AWS::Batch::JobDefinition")["Timeout"] == {"AttemptDurationSeconds": 14 * 24 * 3600}


def test_the_network_costs_nothing_while_no_child_runs(control: Template) -> None:
    assert not resources(control, "AWS::EC2::NatGateway")
    endpoints = resources(control, "AWS::EC2::VPCEndpoint").values()
    assert {endpoint["Properties"]["VpcEndpointType"] for endpoint in endpoints} == {"Gateway"}


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


def test_no_template_holds_a_word_of_this_machine(control: Template) -> None:
    assert "/work" not in json.dumps(control)
    assert "/home/" not in json.dumps(control)
