"""VPC endpoints: how children reach AWS without the internet, and who may use them."""

from aws_cdk import Aws
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from traingrid.grid import Grid

CHILDREN = "Children"
"""What the group of the subnets is called that children run in."""

_PRIVATE = {
    "Ecr": (ec2.InterfaceVpcEndpointAwsService.ECR, "ecr:*"),
    "EcrDocker": (ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER, "ecr:*"),
    "Logs": (ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS, "logs:*"),
    "SageMaker": (ec2.InterfaceVpcEndpointAwsService.SAGEMAKER_API, "sagemaker:*"),
}
"""What a child, and the Fargate agent that starts it, call in the home Region beside S3 and DynamoDB, and what for
(https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html)."""

_ELSEWHERE = {"Sts": (ec2.InterfaceVpcEndpointAwsService.STS, "sts:*")}
"""What children call beside that where they take on roles of other accounts."""


def reach_storage(vpc: ec2.Vpc, grid: Grid) -> None:
    """Add the gateway endpoints of S3 and DynamoDB, which cost nothing, for this grid's use of them only."""
    storage = vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
    storage.add_to_policy(_accounts_of_home(grid, "s3:*"))
    # The layers of an image lie in a bucket of ECR's own, and are fetched with ECR's signature
    # (https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html#ecr-minimum-s3-perms).
    storage.add_to_policy(
        iam.PolicyStatement(
            principals=[iam.AnyPrincipal()],
            actions=["s3:GetObject"],
            resources=[f"arn:aws:s3:::prod-{grid.home}-starport-layer-bucket/*"],
        )
    )
    ledger = vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
    ledger.add_to_policy(_accounts_of_home(grid, "dynamodb:*"))


def private_endpoints(scope: Construct, vpc: ec2.Vpc, children: ec2.SecurityGroup, grid: Grid) -> None:
    """Add the interface endpoints of the home Region, in the children's subnets, for this grid's use of them only.

    They take HTTPS from the children and nothing else. Each is $0.01 an hour and zone, idle or not
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
    wanted = _PRIVATE | queues | (_ELSEWHERE if grid.elsewhere() else {})
    for name, (service, actions) in wanted.items():
        endpoint = vpc.add_interface_endpoint(
            name,
            service=service,
            subnets=ec2.SubnetSelection(subnet_group_name=CHILDREN),
            security_groups=[group],
            open=False,
        )
        endpoint.add_to_policy(_accounts_of_home(grid, actions))


def _accounts_of_home(grid: Grid, actions: str) -> iam.PolicyStatement:
    """Return a statement of an endpoint's policy: any principal of the grid's may; its role says what exactly.

    An endpoint leads to its own Region, so beside this account only one that trains there is let through.
    """
    trains_there = grid.elsewhere().get(grid.home)
    accounts = [Aws.ACCOUNT_ID, trains_there] if trains_there else Aws.ACCOUNT_ID
    return iam.PolicyStatement(
        principals=[iam.AnyPrincipal()],
        actions=[actions],
        resources=["*"],
        conditions={"StringEquals": {"aws:PrincipalAccount": accounts}},
    )
