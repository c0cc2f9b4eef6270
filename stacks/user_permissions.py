"""Permissions of users of the home account in a Region of another account, for calls of the command line."""

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from stacks.child_permissions import let_read_training_logs
from stacks.grants import grant
from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.names import Part


def let_use(role: iam.Role, grid: GridSettings, region: str) -> None:
    """Allow a role to upload data, download results, read logs, and list images."""
    account = Aws.ACCOUNT_ID
    data_bucket = names.data_bucket(grid.name, account, region)
    output = names.output_bucket(grid.name, account, region)
    buckets = [f"arn:aws:s3:::{bucket}" for bucket in (*grid.data_buckets(account, region), output)]
    grant(role, ["s3:ListBucket"], buckets)
    grant(role, ["s3:GetObject"], [f"arn:aws:s3:::{output}/*"], because="A user may read any result")
    grant(
        role,
        ["s3:PutObject", "s3:AbortMultipartUpload"],
        [f"arn:aws:s3:::{data_bucket}/*"],
        because="Users choose the names of data sets; only the grid's own bucket is writable",
    )
    repositories = [
        f"arn:aws:ecr:{region}:{account}:repository/{names.repository(grid.name, short)}"
        for short in grid.repositories()
    ]
    grant(role, ["ecr:DescribeImages"], repositories)
    let_read_training_logs(role, grid, [region])


def let_check_up(role: iam.Role, grid: GridSettings, region: str) -> None:
    """Allow a role the additional read-only calls of `traingrid doctor`."""
    account = Aws.ACCOUNT_ID
    stacks = [names.region_stack(grid.name, region), names.registry_stack(grid.name, region)]
    grant(
        role,
        ["cloudformation:DescribeStacks"],
        [f"arn:aws:cloudformation:{region}:{account}:stack/{stack}/*" for stack in stacks],
        because="CloudFormation appends an id of its choice to a stack's ARN",
    )
    grant(role, ["iam:GetRole"], [names.execution_role_arn(grid.name, account, region)])
    grant(role, ["ssm:GetParameter"], [f"arn:aws:ssm:{region}:{account}:parameter{names.BOOTSTRAP}"])
    actions = ["ec2:DescribeRegions", "servicequotas:ListServiceQuotas"]
    if grid.regions[region].subnets:
        actions += ["ec2:DescribeSecurityGroupRules", "ec2:DescribeSubnets"]
    if kind_by_file_system := grid.regions[region].file_systems:
        actions += ["fsx:DescribeFileSystems", "ec2:DescribeNetworkInterfaces"]
        efs_ids = [file_system for file_system, kind in kind_by_file_system.items() if kind == "EFS"]
        arns = [f"arn:aws:elasticfilesystem:{region}:{account}:file-system/{file_system}" for file_system in efs_ids]
        if arns:
            grant(role, ["elasticfilesystem:DescribeMountTargets"], arns)
    grant(role, actions, ["*"], because="The actions do not support resources")
    if settings := grid.regions[region].eks:
        _let_check_cluster(role, grid, region, settings.cluster)


def _let_check_cluster(role: iam.Role, grid: GridSettings, region: str, cluster: str) -> None:
    """Allow a role to check that the grid's roles and pods have access to a cluster, and that the agent is there."""
    eks = f"arn:aws:eks:{region}:{Aws.ACCOUNT_ID}"
    because = "EKS appends an id of its choice to these ARNs"
    parts: tuple[Part, ...] = ("launch", "sweep", "use")
    entries = [
        f"{eks}:access-entry/{cluster}/role/{Aws.ACCOUNT_ID}/{names.acting_role(grid.name, part, region)}/*"
        for part in parts
    ]
    grant(role, ["eks:DescribeAccessEntry"], entries, because=because)
    grant(role, ["eks:DescribeAddon"], [f"{eks}:addon/{cluster}/{names.POD_IDENTITY_AGENT}/*"], because=because)
    grant(role, ["eks:ListPodIdentityAssociations"], [f"{eks}:cluster/{cluster}"])
    associations = [f"{eks}:podidentityassociation/{cluster}/*"]
    grant(role, ["eks:DescribePodIdentityAssociation"], associations, because=because)


def let_read_prices_and_capacity(role: iam.Role) -> None:
    """Allow a role the additional read-only calls of `traingrid prices refresh` and `traingrid capacity refresh`."""
    grant(
        role,
        ["ec2:DescribeSpotPriceHistory", "sagemaker:ListTrainingPlans"],
        ["*"],
        because="The actions do not support resources",
    )
