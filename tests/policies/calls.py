"""The calls of AWS that each role makes, or that a service makes with it.

Each call has the conditions under which a role makes it: a request parameter ("tags", "versionId"), or a type of
resource that the request uses ("kms:key": what it reads or writes is encrypted with a customer managed key).
`test_required_permissions` compares the calls with the product's code and with the policies.
"""

from collections.abc import Mapping

KEY = "kms:key"
_READ: Mapping[str, set[str]] = {"s3:GetObject": {"versionId", KEY}}
_FUNCTION: Mapping[str, set[str]] = {
    # Lambda with the role of a function: https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html,
    # and dead letters: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html
    "logs:CreateLogStream": set(),
    "logs:PutLogEvents": set(),
    "sqs:SendMessage": {KEY},
    "xray:PutTraceSegments": set(),
    "xray:PutTelemetryRecords": set(),
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

CALLS: Mapping[str, Mapping[str, set[str]]] = {
    "child": {
        **_READ,
        **_SEE,
        **_SEE_QUEUED,
        "s3:PutObject": {KEY},
        "s3:ListObjectsV2": set(),
        **{f"dynamodb:{name}": {KEY} for name in ("GetItem", "PutItem", "Query", "UpdateItem")},
        "sagemaker:CreateTrainingJob": {"RoleArn", "Tags"},
        "sagemaker:StopTrainingJob": set(),
        "logs:GetLogEvents": set(),
        "logs:DescribeLogStreams": set(),
        "batch:SubmitServiceJob": {"tags", "quotaShareName", "serviceRequestPayload"},
        "batch:TerminateServiceJob": set(),
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
        **_SEE,
        **_SEE_QUEUED,
        "s3:ListObjectsV2": set(),
        **{f"dynamodb:{name}": {KEY} for name in ("Scan", "GetItem", "PutItem", "UpdateItem")},
        "sagemaker:ListTrainingJobs": set(),
        "sagemaker:StopTrainingJob": set(),
        "batch:ListJobs": set(),
        "batch:DescribeJobs": set(),
        "batch:TerminateServiceJob": set(),
    },
    "region guard": {
        **_FUNCTION,
        "s3:GetObject": {KEY},
        "s3:ListObjectsV2": set(),
        "dynamodb:Scan": {KEY},
        "sagemaker:ListTrainingJobs": set(),
        "batch:DescribeJobs": set(),
        "batch:ListServiceJobs": set(),
        "cloudformation:DescribeStacks": set(),
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
    },
    "flow logs": {**_LOG, "logs:DescribeLogStreams": set()},
    "event forwarding": {"events:PutEvents": set()},
}
