"""The account: quotas, Regions and budgets."""

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.templates import Stack
from conformance.sources import model, page, schema


@claim(
    page("https://docs.aws.amazon.com/general/latest/gr/sagemaker.html"),
    page(
        "https://github.com/aws/amazon-sagemaker-examples/issues/1543",
        "account-level service limit 'ml.p3.8xlarge for training job usage' is 2 Instances",
    ),
    used_by="traingrid/deploy/checkup/quotas.py",
)
def quotas_of_training_are_listed_by_instance_type(aws: Aws) -> None:
    """ListServiceQuotas for sagemaker returns the quota "ml.m5.large for training job usage"."""
    pages = aws.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    names = {quota["QuotaName"]: quota["Value"] for page in pages for quota in page["Quotas"]}
    assert names["ml.m5.large for training job usage"] >= 0


@claim(
    model("ec2", "Region", "opt-in-not-required"),
    used_by="traingrid/deploy/checkup/account.py traingrid/deploy/retained.py",
)
def regions_tell_whether_they_are_switched_on(aws: Aws) -> None:
    """DescribeRegions returns the status opt-in-not-required for a Region that needs no opt-in."""
    regions = aws.client("ec2").describe_regions(RegionNames=["us-east-1"])["Regions"]
    assert [region["OptInStatus"] for region in regions] == ["opt-in-not-required"]


@claim(
    schema("AWS::Budgets::Budget", '"/properties/NotificationsWithSubscribers"'),
    used_by="stacks/budget.py",
)
def budget_of_a_fixed_name_keeps_its_subscribers(aws: Aws) -> None:
    """An update that changes the subscribers of a budget with a fixed name is a replacement, and therefore fails."""
    stack, name = Stack(aws), aws.name("budget")

    def budget(email: str) -> dict[str, object]:
        notified = {"ComparisonOperator": "GREATER_THAN", "NotificationType": "ACTUAL", "Threshold": 100}
        subscribers = [{"SubscriptionType": "EMAIL", "Address": email}]
        money = {"Amount": 1, "Unit": "USD"}
        of = {"BudgetName": name, "BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": money}
        properties = {
            "Budget": of,
            "NotificationsWithSubscribers": [{"Notification": notified, "Subscribers": subscribers}],
        }
        return {"Budget": {"Type": "AWS::Budgets::Budget", "Properties": properties}}

    assert stack.deploy(budget("one@example.com")) == "CREATE_COMPLETE"
    assert stack.deploy(budget("two@example.com")) == "UPDATE_ROLLBACK_COMPLETE"


@claim(
    page(
        "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html",
        "the CIDR blocks of the subnets cannot overlap",
    ),
    used_by="stacks/network.py",
)
def subnets_do_not_overlap(aws: Aws) -> None:
    """CreateSubnet is refused with InvalidSubnet.Conflict if its addresses overlap with another subnet's."""
    ec2 = aws.client("ec2")
    specification = [{"ResourceType": "vpc", "Tags": aws.tags()}]
    vpc = ec2.create_vpc(CidrBlock="10.99.0.0/16", TagSpecifications=specification)["Vpc"]["VpcId"]
    aws.undo.later(f"VPC {vpc}", lambda: ec2.delete_vpc(VpcId=vpc))
    tagged = [{"ResourceType": "subnet", "Tags": aws.tags()}]
    first = ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.0.0/20", TagSpecifications=tagged)["Subnet"]["SubnetId"]
    aws.undo.later(f"subnet {first}", lambda: ec2.delete_subnet(SubnetId=first))
    with refused("InvalidSubnet.Conflict"):
        ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.0.0/28")


@documented(
    page(
        "https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/818",
        "Please verify that the ECS service linked role exists",
    ),
    page(
        "https://github.com/aws/containers-roadmap/issues/2614",
        "AssumeRole failure race condition during CreateCluster",
    ),
    used_by="docs/quotas.md stacks/orchestrator.py",
    why="it needs an account that has never used Amazon ECS",
)
def first_cluster_waits_for_its_service_linked_role(aws: Aws) -> None:
    """In an account that never used Amazon ECS, creating a cluster may fail until the service-linked role exists."""


@documented(
    page(
        "https://github.com/terraform-aws-modules/terraform-aws-vpc/issues/462",
        "does not support the availability zone of the subnet",
    ),
    used_by="stacks/control_stack.py stacks/endpoints.py",
    why="which zones an account has is chosen by AWS",
)
def zone_may_lack_an_endpoint_service(aws: Aws) -> None:
    """An interface endpoint is refused in an Availability Zone that its service does not support."""
