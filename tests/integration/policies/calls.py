"""AWS calls of each role, including those that a service makes with it.

Each call has the conditions under which a role makes it: a request parameter ("tags", "versionId"), or a type of
resource that the request uses ("kms:key": the data is encrypted with a customer managed key).
`test_required_permissions` compares the calls with the product's code and with the policies. A rule of
tests/integration/posture compares the roles with those of every kind of grid.
"""

from collections.abc import Mapping

KEY = "kms:key"
_READ: Mapping[str, set[str]] = {"s3:GetObject": {"versionId", KEY}}
_FUNCTION: Mapping[str, set[str]] = {
    # Lambda uses the function's role: https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html,
    # and dead letters: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html
    "logs:CreateLogStream": set(),
    "logs:PutLogEvents": set(),
    "sqs:SendMessage": {KEY},
    "xray:PutTraceSegments": set(),
    "xray:PutTelemetryRecords": set(),
}
_CONNECT: Mapping[str, set[str]] = {
    # Lambda uses the function's role: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
    "ec2:CreateNetworkInterface": set(),
    "ec2:DescribeNetworkInterfaces": set(),
    "ec2:DescribeSubnets": set(),
    "ec2:DeleteNetworkInterface": set(),
    "ec2:AssignPrivateIpAddresses": set(),
    "ec2:UnassignPrivateIpAddresses": set(),
}
_PULL: Mapping[str, set[str]] = {
    "ecr:BatchCheckLayerAvailability": set(),
    "ecr:BatchGetImage": set(),
    "ecr:GetDownloadUrlForLayer": set(),
    "ecr:GetAuthorizationToken": set(),
}
_LOG: Mapping[str, set[str]] = {"logs:CreateLogStream": set(), "logs:PutLogEvents": set()}
_PUSH: Mapping[str, set[str]] = {
    # https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html
    "ecr:BatchCheckLayerAvailability": set(),
    "ecr:BatchGetImage": set(),
    "ecr:CompleteLayerUpload": set(),
    "ecr:DescribeImages": set(),
    "ecr:GetAuthorizationToken": set(),
    "ecr:InitiateLayerUpload": set(),
    "ecr:PutImage": set(),
    "ecr:UploadLayerPart": set(),
}
_BUILD = {"events:PutEvents": set(), **_PUSH, **_LOG, "s3:GetObject": set[str]()}
_SEE: Mapping[str, set[str]] = {"sagemaker:DescribeTrainingJob": set(), "sagemaker:ListTags": set()}
_SEE_QUEUED: Mapping[str, set[str]] = {"batch:DescribeServiceJob": set(), "batch:ListServiceJobs": set()}
_SEE_AND_STOP = {**_SEE, "sagemaker:ListTrainingJobs": set[str](), "sagemaker:StopTrainingJob": set[str]()}
_READ_LOGS: Mapping[str, set[str]] = {"logs:GetLogEvents": set(), "logs:DescribeLogStreams": set()}
_START = {
    "sagemaker:CreateTrainingJob": {"RoleArn", "Tags", "sagemaker:training-plan"},
    "sagemaker:StopTrainingJob": set[str](),
    **_SEE,
    **_READ_LOGS,
    "s3:ListObjectsV2": set[str](),
    "s3:PutObject": {KEY},
}

_FIND_CLUSTER: Mapping[str, set[str]] = {"eks:DescribeCluster": set()}
_READ_DATASETS: Mapping[str, set[str]] = {"s3:GetObject": {KEY}, "s3:ListObjectsV2": set()}

CALLS: Mapping[str, Mapping[str, set[str]]] = {
    "child": {
        **_READ,
        **_START,
        **_FIND_CLUSTER,
        **_SEE_QUEUED,
        **{f"dynamodb:{name}": {KEY} for name in ("GetItem", "PutItem", "Query", "UpdateItem")},
        "batch:SubmitServiceJob": {"tags", "quotaShareName", "serviceRequestPayload"},
        "batch:TerminateServiceJob": set(),
        # With `moves`: S3 also reads the source of a copy as GetObject does.
        "s3:HeadObject": {KEY},
        "s3:CopyObject": {KEY},
        "s3:CreateMultipartUpload": {KEY},
        "s3:UploadPartCopy": {KEY},
        "s3:ListMultipartUploads": set(),
        "s3:ListParts": set(),
        "s3:CompleteMultipartUpload": set(),
        "s3:AbortMultipartUpload": set(),
        "s3:DeleteObject": set(),  # of checkpoints
    },
    "start of a child": {**_PULL, **_LOG},
    "intake": {
        **_FUNCTION,
        **_READ,
        "s3:PutObject": {KEY},
        **{f"dynamodb:{name}": {KEY} for name in ("GetItem", "PutItem", "UpdateItem")},
        "batch:SubmitJob": {"tags"},
        "batch:ListJobs": set(),
    },
    "recorder": {**_FUNCTION, **_SEE, **_SEE_QUEUED, "dynamodb:UpdateItem": {KEY}},
    "reconciler": {
        **_FUNCTION,
        **_READ,
        **_SEE_AND_STOP,
        **_FIND_CLUSTER,
        **_SEE_QUEUED,
        "s3:ListObjectsV2": set(),
        **{f"dynamodb:{name}": {KEY} for name in ("Scan", "Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem")},
        "batch:ListJobs": set(),
        "batch:DescribeJobs": set(),
        "batch:TerminateServiceJob": set(),
        "sns:Publish": {KEY},
        **_CONNECT,
    },
    "registrar": {
        **_FUNCTION,
        **_READ_DATASETS,
        "s3:PutObject": {KEY},
        **{f"dynamodb:{name}": {KEY} for name in ("GetItem", "PutItem", "UpdateItem")},
    },
    "region guard": {
        **_FUNCTION,
        "s3:GetObject": {KEY},
        "s3:ListObjectsV2": set(),
        **{f"dynamodb:{name}": {KEY} for name in ("Scan", "Query", "GetItem")},
        "sagemaker:ListTrainingJobs": set(),
        "batch:ListServiceJobs": set(),
        **_FIND_CLUSTER,
        "cloudformation:DescribeStacks": set(),
    },
    "follower": {
        **_FUNCTION,
        "sqs:SendMessage": set(),  # `catalog: dsql` is refused together with customer managed keys
        "s3:GetObject": set(),
        "s3:ListObjectsV2": set(),
        "dynamodb:GetItem": set(),
        "dynamodb:Query": set(),
        # Lambda reads the stream with the function's role:
        # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/iam-policy-example-lamda-process-dynamodb-streams.html
        "dynamodb:DescribeStream": set(),
        "dynamodb:GetRecords": set(),
        "dynamodb:GetShardIterator": set(),
        "dynamodb:ListStreams": set(),
        # The token of a connection is a signed request of this action, which Aurora DSQL checks:
        # https://docs.aws.amazon.com/aurora-dsql/latest/userguide/authentication-authorization.html
        "dsql:DbConnect": set(),
    },
    "image builder": {
        **_FUNCTION,
        "codebuild:StartBuild": set(),
        "codebuild:BatchGetBuilds": set(),
        "ecr:DescribeImages": set(),
    },
    "replication wait": {**_LOG, "ecr:DescribeImages": set(), "events:PutEvents": set()},
    "orchestrator build": _BUILD,
    "training build": _BUILD,
    "training job": {
        # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html
        **_PULL,
        **_LOG,
        "s3:GetObject": {KEY},
        "s3:PutObject": {KEY, "OutputDataConfig.KmsKeyId"},
        "s3:AbortMultipartUpload": set(),
        "s3:DeleteObject": set(),  # by pods
        "s3:ListObjectsV2": set(),
        "logs:CreateLogGroup": set(),
        "logs:DescribeLogStreams": set(),
        "cloudwatch:PutMetricData": set(),
        "ec2:CreateNetworkInterface": set(),
        "ec2:CreateNetworkInterfacePermission": set(),
        "ec2:DeleteNetworkInterface": set(),
        "ec2:DeleteNetworkInterfacePermission": set(),
        "ec2:DescribeDhcpOptions": set(),
        "ec2:DescribeNetworkInterfaces": set(),
        "ec2:DescribeSecurityGroups": set(),
        "ec2:DescribeSubnets": set(),
        "ec2:DescribeVpcs": set(),
        "elasticfilesystem:ClientMount": set(),
    },
    "flow logs": {**_LOG, "logs:DescribeLogStreams": set()},
    "event forwarding": {"events:PutEvents": set()},
}
"""Calls of the roles of a grid in one account."""

CALLS_BETWEEN_ACCOUNTS: Mapping[str, Mapping[str, set[str]]] = {
    **{role: {"sts:AssumeRole": set()} for role in ("child", "recorder", "reconciler", "registrar")},
    "launch": {**_START, **_FIND_CLUSTER, "s3:GetObject": {KEY}},
    "record": _SEE,
    "sweep": {**_SEE_AND_STOP, **_FIND_CLUSTER},
    "register": _READ_DATASETS,
    "use": {
        **_SEE_AND_STOP,
        **_FIND_CLUSTER,
        **_READ_LOGS,
        # upload_file and download_fileobj, which copy a large object in parts:
        # https://boto3.amazonaws.com/v1/documentation/api/latest/guide/s3.html#using-the-transfer-manager
        "s3:HeadObject": {KEY},
        "s3:GetObject": {KEY},
        "s3:PutObject": {KEY},
        "s3:CreateMultipartUpload": {KEY},
        "s3:UploadPart": {KEY},
        "s3:CompleteMultipartUpload": set(),
        "s3:AbortMultipartUpload": set(),
        "s3:HeadBucket": set(),
        "s3:ListObjectsV2": set(),
        "cloudformation:DescribeStacks": set(),
        "ec2:DescribeNetworkInterfaces": set(),
        "ec2:DescribeRegions": set(),
        "ec2:DescribeSecurityGroupRules": set(),
        "ec2:DescribeSpotPriceHistory": set(),
        "ec2:DescribeSubnets": set(),
        "eks:DescribeAccessEntry": set(),
        "eks:DescribeAddon": set(),
        "eks:DescribePodIdentityAssociation": set(),
        "eks:ListPodIdentityAssociations": set(),
        "elasticfilesystem:DescribeMountTargets": set(),
        "fsx:DescribeFileSystems": set(),
        "ecr:DescribeImages": set(),
        "iam:GetRole": set(),
        "sagemaker:ListTrainingPlans": set(),
        "servicequotas:ListServiceQuotas": set(),
        "ssm:GetParameter": set(),
        "sts:GetCallerIdentity": set(),
    },
}
"""Additional calls if a training Region is in another account: those of the five roles there, one for each of four
roles of the control plane, which assume them, and one for users (docs/accounts.md)."""


def calls_of(role: str) -> Mapping[str, set[str]]:
    """Return every call of a role, with the conditions under which the role makes it."""
    found: dict[str, set[str]] = {}
    for made in (CALLS.get(role, {}), CALLS_BETWEEN_ACCOUNTS.get(role, {})):
        for call, conditions in made.items():
            found[call] = found.get(call, set()) | conditions
    return found


EVERY_ROLE = tuple(dict.fromkeys((*CALLS, *CALLS_BETWEEN_ACCOUNTS)))
"""Every role that a grid can have."""
