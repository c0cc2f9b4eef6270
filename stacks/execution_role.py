"""Execution role: the role of training containers, and so of the code that a manifest names."""

import re
from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.eks_access import let_pods_assume
from stacks.grants import grant, same_account
from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.grid.region import Region

_ECR_IMAGE = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)")

_ECR_PART = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(/(?P<repository>.+))?")


class ExecutionRole(Construct):
    """The role that SageMaker, and EKS in a Region with a cluster, assume for the training jobs of one Region.

    It reads data, writes output and logs, and pulls the grid's images. It cannot start jobs, pass a role, or read the
    ledger or manifests, so a training job cannot start others.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        grid: GridSettings,
        region: str,
        output: s3.Bucket,
        repositories: Sequence[str],
    ) -> None:
        super().__init__(scope, identifier)
        account = Aws.ACCOUNT_ID
        self.role = iam.Role(
            self,
            "Role",
            role_name=names.execution_role(grid.name, region),
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions=same_account(f"arn:aws:sagemaker:{region}:{account}:*")
            ),
            description=f"Execution role of training jobs of {grid.name} in {region}",
        )
        if settings := grid.regions[region].eks:
            let_pods_assume(self.role, settings, region)
        self._read_data(grid.data_buckets(account, region))
        self._write_output(output)
        if grid.regions[region].eks:
            self._delete_checkpoints(output)
        self._pull_images([*repositories, *_foreign_repositories(grid, region)], _registries(grid, region))
        self._write_logs_and_metrics(region)
        if grid.regions[region].subnets:
            self._join_network(grid.regions[region], region)
        self._mount_file_systems(grid.regions[region], region)
        if grid.training.remote_debug:
            self._accept_shells()

    def _read_data(self, buckets: Sequence[str]) -> None:
        arns = [f"arn:aws:s3:::{bucket}" for bucket in buckets]
        objects = [f"{arn}/*" for arn in arns]
        grant(self.role, ["s3:GetObject"], objects, because="A manifest line may name any data in the Region's buckets")
        grant(self.role, ["s3:ListBucket"], arns)

    def _write_output(self, bucket: s3.Bucket) -> None:
        grant(
            self.role,
            ["s3:PutObject", "s3:GetObject", "s3:AbortMultipartUpload"],
            [f"{bucket.bucket_arn}/*"],
            because="All jobs of a Region have one role; IAM does not limit a job to the prefix below which it writes",
        )
        grant(self.role, ["s3:ListBucket"], [bucket.bucket_arn])

    def _delete_checkpoints(self, bucket: s3.Bucket) -> None:
        """Let pods delete the checkpoints in S3 that their training has deleted, as they copy its folder.

        The bucket keeps deleted versions for a while. A condition on the ETag requires s3:GetObject, too
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html).
        """
        because = "Every job has its checkpoints below its own prefix"
        grant(self.role, ["s3:DeleteObject"], [f"{bucket.bucket_arn}/*/checkpoints/*"], because=because)

    def _pull_images(self, repositories: Sequence[str], registries: Sequence[str]) -> None:
        pull = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]
        grant(self.role, pull, repositories)
        if registries:
            because = "image_registries of grid.yaml: a manifest line may name any image in them"
            grant(self.role, pull, registries, because=because)
        because = "The token is valid for the account: the action does not support resources"
        grant(self.role, ["ecr:GetAuthorizationToken"], ["*"], because=because)

    def _write_logs_and_metrics(self, region: str) -> None:
        grant(
            self.role,
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [f"arn:aws:logs:{region}:{Aws.ACCOUNT_ID}:log-group:/aws/sagemaker/TrainingJobs:*"],
            because="SageMaker names a log stream after every host of a job",
        )
        grant(
            self.role,
            ["cloudwatch:PutMetricData"],
            ["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/TrainingJobs"}},
            because="The action does not support resources; the condition allows a single namespace",
        )

    def _accept_shells(self) -> None:
        """Let the agent that SageMaker starts in a container communicate with Session Manager.

        The actions are those of https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html.
        """
        channels = ("CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel")
        because = "The actions do not support resources; a channel is that of the container itself"
        grant(self.role, [f"ssmmessages:{action}" for action in channels], ["*"], because=because)

    def _join_network(self, settings: Region, region: str) -> None:
        """Grant the permissions with which SageMaker connects a training job to the Region's subnets.

        The actions are those of https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html (CreateTrainingJob
        with a private VPC), which grants them on all resources. This role can only create interfaces in the grid's
        subnets and security groups, and can only delete, or grant permissions on, interfaces in these subnets. The same
        page warns that SageMaker refuses a processing job whose role has conditions on these actions. That does not
        apply to training jobs: AWS's own policy for their roles has such a condition on the VPC (statement
        AllowManageSageMakerTrainingEniOnVpc):
        https://docs.aws.amazon.com/aws-managed-policy/latest/reference/SageMakerStudioProjectRoleMachineLearningPolicy.html
        """
        ec2 = f"arn:aws:ec2:{region}:{Aws.ACCOUNT_ID}"
        subnets = [f"{ec2}:subnet/{subnet}" for subnet in settings.subnets]
        groups = [f"{ec2}:security-group/{group}" for group in settings.security_groups]
        interfaces = f"{ec2}:network-interface/*"
        because = "EC2 chooses the ids of network interfaces"
        grant(self.role, ["ec2:CreateNetworkInterface"], [*subnets, *groups, interfaces], because=because)
        grant(
            self.role,
            [
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            [interfaces],
            conditions={"ArnEquals": {"ec2:Subnet": subnets}},
            because=because,
        )
        looks = ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")
        because = (
            "EC2's Describe actions do not support resources; SageMaker checks the network before it starts a host"
        )
        grant(self.role, [f"ec2:Describe{resources}" for resources in looks], ["*"], because=because)

    def _mount_file_systems(self, settings: Region, region: str) -> None:
        """Grant read access to the Region's EFS file systems, which a file system's own policy may require.

        Without such a policy every host that reaches a mount target may mount
        (https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html). FSx for Lustre has no permissions
        for clients: its security groups decide
        (https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html).
        """
        efs_ids = [file_system for file_system, kind in settings.file_systems.items() if kind == "EFS"]
        if efs_ids:
            grant(
                self.role,
                ["elasticfilesystem:ClientMount"],
                [f"arn:aws:elasticfilesystem:{region}:{Aws.ACCOUNT_ID}:file-system/{efs_id}" for efs_id in efs_ids],
                conditions={"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}},
            )


def _foreign_repositories(grid: GridSettings, region: str) -> list[str]:
    """Return the ARNs of ECR repositories outside the grid whose images grid.yaml names by URI."""
    uris = {image.uri for image in grid.images.values() if image.uri}
    if grid.job.image not in grid.images:
        uris.add(grid.job.image)
    matches = [match for uri in sorted(uris) if (match := _ECR_IMAGE.match(uri.replace("{region}", region)))]
    return [f"arn:aws:ecr:{match['region']}:{match['account']}:repository/{match['repository']}" for match in matches]


def _registries(grid: GridSettings, region: str) -> list[str]:
    """Return the ARNs of the repositories in `image_registries`, whose images a manifest may name.

    An entry is a registry, or a repository with all repositories whose names continue with a slash, as in
    `traingrid.manifest.allowed`.
    """
    matches = [_ECR_PART.fullmatch(registry.replace("{region}", region)) for registry in grid.image_registries]
    in_region = [match for match in matches if match and match["region"] == region]
    parts = [(f"arn:aws:ecr:{region}:{match['account']}:repository", match["repository"]) for match in in_region]
    arns: list[str] = []
    for registry, repository in parts:
        arns += [f"{registry}/{repository}", f"{registry}/{repository}/*"] if repository else [f"{registry}/*"]
    return arns
