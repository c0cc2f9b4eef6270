"""Service queues in the training Regions, and the home queue with shares."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.stacks.templates import Template, a_grid, actions, allowed, flat, on, only, resources, synthesise
from traingrid.grid.model import GridSettings

QUOTA = {"research": {"ml.g5.48xlarge": 4}, "production": {"ml.g5.48xlarge": 12}}
SHARES = {"research": 1, "production": 4}


def queues_grid(**changes: Any) -> GridSettings:
    """Return a grid of three Regions: with a simple queue, with quota shares, and without a queue."""
    regions = {
        "us-east-1": {"service_queue": {"instances": 16}},
        "us-west-2": {"service_queue": {"quota_shares": QUOTA}},
        "eu-west-1": None,
    }
    return a_grid(regions, **{"shares": SHARES, **changes})


@pytest.fixture(scope="module")
def made(layer: Path) -> dict[str, Template]:
    return synthesise(queues_grid(), layer)


def test_a_queue_has_an_environment_of_its_size_and_shares_by_weight(made: dict[str, Template]) -> None:
    template = made["traingrid-us-east-1"]
    environment, queue = only(template, "AWS::Batch::ServiceEnvironment"), only(template, "AWS::Batch::JobQueue")
    assert environment["CapacityLimits"] == [{"CapacityUnit": "NUM_INSTANCES", "MaxCapacity": 16}]
    assert (queue["JobQueueName"], queue["JobQueueType"]) == ("traingrid-training", "SAGEMAKER_TRAINING")
    (order,) = queue["ServiceEnvironmentOrder"]
    assert order["ServiceEnvironment"]["Fn::GetAtt"][0] in resources(template, "AWS::Batch::ServiceEnvironment")
    assert queue["SchedulingPolicyArn"]["Fn::GetAtt"][0] in resources(template, "AWS::Batch::SchedulingPolicy")
    assert weights(template) == {"research": 1.0, "production": 0.25}


def weights(template: Template) -> dict[str, float]:
    policy = only(template, "AWS::Batch::SchedulingPolicy")["FairsharePolicy"]
    return {share["ShareIdentifier"]: share["WeightFactor"] for share in policy["ShareDistribution"]}


def test_quota_shares_divide_a_queue_and_only_lend_if_configured(made: dict[str, Template], layer: Path) -> None:
    template = made["traingrid-us-west-2"]
    assert only(template, "AWS::Batch::JobQueue")["JobQueueName"] == "traingrid-training-quota"
    limits = only(template, "AWS::Batch::ServiceEnvironment")["CapacityLimits"]
    assert limits == [{"CapacityUnit": "ml.g5.48xlarge", "MaxCapacity": 16}]
    assert "FairsharePolicy" not in only(template, "AWS::Batch::SchedulingPolicy")
    shares = [share["Properties"] for share in resources(template, "AWS::Batch::QuotaShare").values()]
    assert {share["QuotaShareName"]: share["CapacityLimits"][0]["MaxCapacity"] for share in shares} == {
        "research": 4,
        "production": 12,
    }
    assert {share["ResourceSharingConfiguration"]["Strategy"] for share in shares} == {"RESERVE"}
    lending = a_grid({"us-west-2": {"service_queue": {"quota_shares": QUOTA, "lend": True}}}, shares=SHARES)
    lent = resources(synthesise(lending, layer)["traingrid-us-west-2"], "AWS::Batch::QuotaShare").values()
    assert {share["Properties"]["ResourceSharingConfiguration"]["Strategy"] for share in lent} == {"LEND_AND_BORROW"}


def test_without_queues_and_shares_there_are_no_such_resources(made: dict[str, Template], control: Template) -> None:
    assert not [kind for kind in kinds(made["traingrid-eu-west-1"]) if kind.startswith("AWS::Batch::")]
    queue = only(control, "AWS::Batch::JobQueue")
    assert (queue["JobQueueName"], queue.get("SchedulingPolicyArn")) == ("traingrid", None)
    assert "SchedulingPriority" not in only(control, "AWS::Batch::JobDefinition")
    assert not {action for action in actions(control, "Orchestrator") if action.startswith("batch:")}


def kinds(template: Template) -> set[str]:
    return {resource["Type"] for resource in template["Resources"].values()}


def test_a_shared_home_queue_has_another_name(made: dict[str, Template]) -> None:
    template = made["traingrid-control"]
    queue = only(template, "AWS::Batch::JobQueue")
    assert queue["JobQueueName"] == "traingrid-shared"
    assert queue["SchedulingPolicyArn"]["Fn::GetAtt"][0] in resources(template, "AWS::Batch::SchedulingPolicy")
    assert weights(template) == {"research": 1.0, "production": 0.25}
    assert only(template, "AWS::Batch::JobDefinition")["SchedulingPriority"] == 0


def test_state_changes_of_queued_jobs_go_home_and_reach_the_recorder(made: dict[str, Template]) -> None:
    pattern = {
        "source": ["aws.batch"],
        "detail-type": ["Batch Service Job State Change"],
        "detail": {"jobName": [{"prefix": "traingrid-"}]},
    }
    for name, expected in (("us-east-1", 1), ("us-west-2", 1), ("eu-west-1", 0), ("control", 1)):
        rules = [rule["Properties"] for rule in resources(made[f"traingrid-{name}"], "AWS::Events::Rule").values()]
        ours = [rule for rule in rules if rule.get("EventPattern") == pattern]
        assert len(ours) == expected, name
        assert all("DeadLetterConfig" in target for rule in ours for target in rule["Targets"])


def test_a_child_submits_only_tagged_jobs_to_its_grids_queues(made: dict[str, Template]) -> None:
    control = made["traingrid-control"]
    queues = {name for name in on(control, "OrchestratorRole", "batch:SubmitServiceJob") if "job-queue" in name}
    account = "<AWS::AccountId>"
    west = f"arn:aws:batch:us-west-2:{account}:job-queue/traingrid-training-quota"
    assert queues == {
        f"arn:aws:batch:us-east-1:{account}:job-queue/traingrid-training",
        west,
        *(f"{west}/quota-share/{share}" for share in SHARES),
    }
    for statement in allowed(control, "OrchestratorRole"):
        if "batch:SubmitServiceJob" in statement["Action"]:
            assert statement["Condition"]["StringEquals"] == {"aws:RequestTag/traingrid:grid": "traingrid"}
        if "batch:TerminateServiceJob" in statement["Action"]:
            assert statement["Condition"]["StringEquals"] == {"aws:ResourceTag/traingrid:grid": "traingrid"}


def test_recorder_and_reconciler_cannot_submit_service_jobs(made: dict[str, Template]) -> None:
    control = made["traingrid-control"]
    looks = {"batch:DescribeServiceJob", "batch:ListServiceJobs"}
    for role, more in (("JobEventsRecordRole", set()), ("ReconcilerSweepRole", {"batch:TerminateServiceJob"})):
        service = {action for action in actions(control, role) if "ServiceJob" in action}
        assert service == looks | more


def test_the_guard_may_list_queued_jobs(made: dict[str, Template], control: Template) -> None:
    assert on(made["traingrid-control"], "GuardAnswerRole", "batch:ListServiceJobs") == {"*"}
    assert not on(control, "GuardAnswerRole", "batch:ListServiceJobs")


def test_children_in_a_private_network_reach_the_queue_at_home(layer: Path) -> None:
    home = {"us-east-1": {"service_queue": {"instances": 2}}}
    control = synthesise(a_grid(home, network="private"), layer)["traingrid-control"]
    services = [
        flat(each["Properties"]["ServiceName"]) for each in resources(control, "AWS::EC2::VPCEndpoint").values()
    ]
    assert any(service.endswith(".batch") for service in services)
