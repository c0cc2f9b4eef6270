"""The resources of the control stack in the home Region."""

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import assertions

from localcloud.batch.retries import Outcome, problem_with, should_retry
from tests.integration.stacks.templates import REGIONS, Template, a_grid, environment, flat, only, resources, synthesise
from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.job.failures import FAILURES
from traingrid.ledger.job_states import INDEXED
from traingrid.submission.intake import WITHIN_SECONDS
from traingrid.submission.intake_failure import RETRY_DELAYS


@pytest.fixture
def stack(control: Template) -> assertions.Template:
    return assertions.Template.from_json(control)


def test_outputs_are_those_that_the_cli_reads(control: Template) -> None:
    assert set(control["Outputs"]) == {
        "ManifestBucket",
        "ManifestFolder",
        "LedgerTable",
        "JobQueue",
        "JobDefinition",
        "IntakeFunction",
        "IntakeDeadLetterQueue",
        "ReconcileFunction",
        "RegisterFunction",
        "RegisterDeadLetterQueue",
        "LogGroup",
    }


def test_an_output_is_the_folder_in_which_manifests_start(control: Template) -> None:
    folder = flat(control["Outputs"]["ManifestFolder"]["Value"])
    assert folder.startswith("s3://")
    assert folder.endswith("/manifests/")


def test_rules_of_this_account_may_target_the_home_bus(control: Template) -> None:
    policy = only(control, "AWS::Events::EventBusPolicy")
    statement = policy["Statement"]
    assert statement["Principal"] == {"AWS": {"Fn::Join": ["", ["arn:aws:iam::", {"Ref": "AWS::AccountId"}, ":root"]]}}
    assert (statement["Effect"], statement["Action"]) == ("Allow", "events:PutEvents")
    assert "Condition" not in statement
    assert flat(statement["Resource"]).endswith(".Arn>")


def test_a_catalog_in_aurora_dsql_is_protected_and_retained(layer: Path) -> None:
    control = synthesise(a_grid(catalog="dsql"), layer)["traingrid-control"]
    ((name, cluster),) = resources(control, "AWS::DSQL::Cluster").items()
    assert cluster["Properties"]["DeletionProtectionEnabled"] is True
    assert (cluster["DeletionPolicy"], cluster["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert {"Key": names.TAG_GRID, "Value": "traingrid"} in cluster["Properties"]["Tags"]
    assert control["Outputs"]["CatalogEndpoint"]["Value"] == {"Fn::GetAtt": [name, "Endpoint"]}


def test_other_catalogs_create_nothing(control: Template, layer: Path) -> None:
    shared = a_grid(catalog="postgresql://db.example.com/catalog")
    assert synthesise(shared, layer)["traingrid-control"] == control


def test_manifest_bucket_is_versioned_private_and_sends_events(control: Template) -> None:
    bucket = only(control, "AWS::S3::Bucket")
    assert flat(bucket["BucketName"]) == "traingrid-manifests-<AWS::AccountId>-us-east-1"
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["BucketEncryption"]


def test_the_region_guard_has_the_only_custom_resource(control: Template) -> None:
    kinds = {resource["Type"] for resource in control["Resources"].values()}
    assert {kind for kind in kinds if kind.startswith("Custom::")} == {names.REGIONS_QUESTION}
    assert len(resources(control, "AWS::Lambda::Function")) == 5


def test_only_new_objects_under_manifests_reach_the_intake(control: Template) -> None:
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    on_default_bus = [rule for rule in rules if "EventBusName" not in rule]
    (rule,) = [rule for rule in on_default_bus if rule.get("EventPattern", {}).get("source") == ["aws.s3"]]
    assert rule["EventPattern"]["detail-type"] == ["Object Created"]
    assert rule["EventPattern"]["detail"]["object"] == {"key": [{"prefix": "manifests/"}]}
    (name,) = rule["EventPattern"]["detail"]["bucket"]["name"]
    assert name["Ref"] in resources(control, "AWS::S3::Bucket")


def test_no_rule_matches_manifests_that_are_submitted_by_hand(control: Template) -> None:
    rules = [rule["Properties"].get("EventPattern", {}) for rule in resources(control, "AWS::Events::Rule").values()]
    keys = [key for rule in rules for key in rule.get("detail", {}).get("object", {}).get("key", [])]
    assert keys == [{"prefix": "manifests/"}, {"suffix": "/dataset.json"}]
    assert not f"{names.BY_HAND_PREFIX}x.csv".startswith(keys[0]["prefix"])


def test_new_markers_reach_the_registrar_by_the_home_bus(control: Template) -> None:
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if "suffix" in str(rule.get("EventPattern"))]
    assert rule["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"object": {"key": [{"suffix": "/dataset.json"}]}},
    }
    assert rule["EventBusName"]["Ref"] in resources(control, "AWS::Events::EventBus")


def test_only_the_registrar_gets_the_rules_for_datasets(layer: Path) -> None:
    grid = a_grid(on_dataset=[{"name": "night", "line": {"tags": {"started-by": "{dataset}"}}}])
    control = synthesise(grid, layer)["traingrid-control"]
    functions = resources(control, "AWS::Lambda::Function").items()
    assert [name[:16] for name, each in functions if "on_dataset" in str(each)] == ["DatasetsRegister"]
    assert "on_dataset" not in str(only(control, "AWS::Batch::JobDefinition"))


def test_state_changes_of_this_grid_reach_the_recorder_by_the_home_bus(control: Template) -> None:
    assert only(control, "AWS::Events::EventBus")["Name"] == "traingrid"
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if rule.get("EventPattern", {}).get("source") == ["aws.sagemaker"]]
    assert rule["EventPattern"]["detail"] == {"TrainingJobName": [{"prefix": "traingrid-"}]}
    assert rule["EventBusName"]["Ref"] in resources(control, "AWS::Events::EventBus")


def test_a_pass_starts_every_five_minutes_and_ends_before_the_next(control: Template) -> None:
    rules = [rule["Properties"] for rule in resources(control, "AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if "ScheduleExpression" in rule]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    (target,) = rule["Targets"]
    function = resources(control, "AWS::Lambda::Function")[target["Arn"]["Fn::GetAtt"][0]]["Properties"]
    assert function["Handler"] == "lambda.reconcile.handler"
    assert function["Timeout"] < 300


def test_intake_retries_and_timeout_match_the_product_code(control: Template) -> None:
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
            "LoggingConfig": {
                "LogGroup": assertions.Match.any_value(),
                "LogFormat": "JSON",
                "ApplicationLogLevel": "INFO",
            },
            "TracingConfig": {"Mode": "Active"},
        },
    )


def test_every_process_gets_the_grid_and_the_names_of_its_resources(control: Template) -> None:
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
        assert list(GridSettings.from_environment(variables["TRAINGRID_GRID"]).regions) == list(REGIONS[:4])
        assert variables["TRAINGRID_ACCOUNT"] == "<AWS::AccountId>"


def test_a_submission_uses_a_fixed_job_definition_revision(control: Template) -> None:
    """`Ref` of a job definition is its ARN with the revision. Its name alone would select the latest revision."""
    (definition,) = resources(control, "AWS::Batch::JobDefinition")
    for function in resources(control, "AWS::Lambda::Function").values():
        variables = environment(function["Properties"])
        assert variables.get("TRAINGRID_JOB_DEFINITION", f"<{definition}>") == f"<{definition}>"


def test_a_child_has_a_quarter_of_a_vcpu(control: Template) -> None:
    container = only(control, "AWS::Batch::JobDefinition")["ContainerProperties"]
    needs = {requirement["Type"]: requirement["Value"] for requirement in container["ResourceRequirements"]}
    assert needs == {"VCPU": "0.25", "MEMORY": "512"}
    assert only(control, "AWS::Batch::JobDefinition")["PlatformCapabilities"] == ["FARGATE"]


def tried_again(control: Template, attempt: int = 1, **ended: Any) -> bool:
    """Return True if Batch retries a child that ended in this way."""
    definition = only(control, "AWS::Batch::JobDefinition")["RetryStrategy"]
    entries = [
        {name[0].lower() + name[1:]: value for name, value in entry.items()} for entry in definition["EvaluateOnExit"]
    ]
    strategy = {"attempts": definition["Attempts"], "evaluateOnExit": entries}
    assert problem_with(strategy) is None
    defaults = {"exit_code": None, "reason": None, "status_reason": "Essential container in task exited"}
    return should_retry(strategy, attempt, Outcome(**{**defaults, **ended}))


@pytest.mark.parametrize("code", [1, 2, 143])
def test_a_child_with_a_final_exit_code_is_not_retried(control: Template, code: int) -> None:
    assert not tried_again(control, exit_code=code)


@pytest.mark.parametrize("code", [75, 137, 139, 10, 14, 255])
def test_a_child_with_another_exit_code_has_ten_attempts(control: Template, code: int) -> None:
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
def test_a_child_that_fargate_cannot_start_or_stops_is_retried(control: Template, ended: dict[str, Any]) -> None:
    assert tried_again(control, **ended)


def test_of_all_failures_only_exit_code_75_is_retried(control: Template) -> None:
    codes = {failure.exit_code for failure in FAILURES.values()}
    assert {code for code in codes if tried_again(control, exit_code=code)} == {75}


def test_a_child_times_out_after_14_days(control: Template) -> None:
    assert only(control, "AWS::Batch::JobDefinition")["Timeout"] == {"AttemptDurationSeconds": 14 * 24 * 3600}


def test_the_network_is_free_while_no_child_runs(control: Template) -> None:
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


def test_the_ledger_has_indexes_of_the_states_of_jobs_and_of_submissions(stack: assertions.Template) -> None:
    keys = [{"AttributeName": "submission", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}]
    projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(INDEXED)}
    states = {"IndexName": names.LEDGER_STATES, "KeySchema": keys, "Projection": projection}
    keys = [{"AttributeName": "item", "KeyType": "HASH"}, {"AttributeName": "claimed_at", "KeyType": "RANGE"}]
    submissions = {"IndexName": names.LEDGER_SUBMISSIONS, "KeySchema": keys, "Projection": {"ProjectionType": "ALL"}}
    stack.has_resource_properties("AWS::DynamoDB::Table", {"GlobalSecondaryIndexes": [states, submissions]})


def test_templates_contain_no_path_of_this_machine(control: Template) -> None:
    assert "/work" not in json.dumps(control)
    assert "/home/" not in json.dumps(control)
