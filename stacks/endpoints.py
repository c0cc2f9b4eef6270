"""VPC endpoints: private access of children to AWS, and its policies."""

from aws_cdk import Aws
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from traingrid.grid.model import GridSettings

CHILDREN = "Children"
"""Name of the subnet group that children run in."""

_PRIVATE = {
    "Ecr": (ec2.InterfaceVpcEndpointAwsService.ECR, "ecr:*"),
    "EcrDocker": (ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER, "ecr:*"),
    "Logs": (ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS, "logs:*"),
    "SageMaker": (ec2.InterfaceVpcEndpointAwsService.SAGEMAKER_API, "sagemaker:*"),
}
"""Endpoints and actions that a child, and the Fargate agent that starts it, need in the home Region, in addition to S3
and DynamoDB (https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html)."""

_ELSEWHERE = {"Sts": (ec2.InterfaceVpcEndpointAwsService.STS, "sts:*")}
"""Endpoints and actions that children also need if they assume roles in other accounts."""


def reach_storage(vpc: ec2.Vpc, grid: GridSettings) -> None:
    """Add the gateway endpoints of S3 and DynamoDB, which are free of charge, and restrict them to this grid.

    If children copy data to the home Region from another one, S3 has no endpoint: "VPC endpoints do not support
    cross-region requests" is S3's refusal of such a copy
    (https://github.com/data-science-on-aws/data-science-on-aws/issues/221).
    """
    ledger = vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
    ledger.add_to_policy(_accounts_of_home(grid, "dynamodb:*"))
    if grid.moves and grid.home in grid.at_home() and len(grid.at_home()) > 1:
        return
    storage = vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
    storage.add_to_policy(_accounts_of_home(grid, "s3:*"))
    # ECR keeps the layers of images in its own bucket; they are downloaded with URLs that ECR has signed
    # (https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html#ecr-minimum-s3-perms).
    storage.add_to_policy(
        iam.PolicyStatement(
            principals=[iam.AnyPrincipal()],
            actions=["s3:GetObject"],
            resources=[f"arn:aws:s3:::prod-{grid.home}-starport-layer-bucket/*"],
        )
    )


def private_endpoints(scope: Construct, vpc: ec2.Vpc, children: ec2.SecurityGroup, grid: GridSettings) -> None:
    """Add the interface endpoints of the home Region to the children's subnets, and restrict them to this grid.

    They accept HTTPS from the children only. Each costs $0.01 per hour and zone, used or not
    (https://aws.amazon.com/privatelink/pricing/).
    """
    group = ec2.SecurityGroup(
        scope,
        "EndpointsSecurityGroup",
        vpc=vpc,
        description="Endpoints of AWS: HTTPS from the children, nothing out",
        allow_all_outbound=False,
    )
    group.add_ingress_rule(children, ec2.Port.tcp(443), "HTTPS from the Batch children")
    queues = {"Batch": (ec2.InterfaceVpcEndpointAwsService.BATCH, "batch:*")} if grid.service_queue(grid.home) else {}
    services = _PRIVATE | queues
    if grid.other_accounts():
        services |= _ELSEWHERE
    for name, (service, actions) in services.items():
        endpoint = vpc.add_interface_endpoint(
            name,
            service=service,
            subnets=ec2.SubnetSelection(subnet_group_name=CHILDREN),
            security_groups=[group],
            open=False,
        )
        endpoint.add_to_policy(_accounts_of_home(grid, actions))


def _accounts_of_home(grid: GridSettings, actions: str) -> iam.PolicyStatement:
    """Return an endpoint policy statement that allows all principals of the grid's accounts; their roles limit them.

    An endpoint serves its own Region, so the only other account is the one that trains in the home Region, if any.
    """
    trains_there = grid.other_accounts().get(grid.home)
    accounts = [Aws.ACCOUNT_ID, trains_there] if trains_there else Aws.ACCOUNT_ID
    return iam.PolicyStatement(
        principals=[iam.AnyPrincipal()],
        actions=[actions],
        resources=["*"],
        conditions={"StringEquals": {"aws:PrincipalAccount": accounts}},
    )
