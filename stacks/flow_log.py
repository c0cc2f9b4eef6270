"""Flow logs: records of the connections in a network."""

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.grants import same_account
from stacks.log_keeping import LogKeeping


def record_flows(scope: Construct, vpc: ec2.Vpc, keeping: LogKeeping) -> None:
    """Record the connections in a VPC, in a log group that is deleted with the stack."""
    stack = Stack.of(scope)
    flows = same_account(f"arn:aws:ec2:{stack.region}:{stack.account}:vpc-flow-log/*")
    role = iam.Role(
        scope,
        "FlowLogRole",
        assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com", conditions=flows),
        description="Writes the flow logs of the Batch children's network",
    )
    group = keeping.log_group(scope, "FlowLogGroup")
    vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role))
