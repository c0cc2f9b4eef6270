"""Keys: the KMS keys of a grid, if grid.yaml enables them, and the permissions to use them."""

from collections.abc import Iterable, Mapping, Sequence

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.grants import grant, same_account
from traingrid import names
from traingrid.grid.model import GridSettings


def stack_key(scope: Construct, identifier: str, *, grid: GridSettings, region: str, alias: str) -> kms.IKey | None:
    """Return the key that a stack encrypts with: None, a key from grid.yaml, or a new key with the alias `alias`.

    A new key is rotated every year. It is retained when its stack is deleted, as is the data encrypted with it.
    """
    if grid.encryption.kind == "s3":
        return None
    if grid.encryption.keys:
        return kms.Key.from_key_arn(scope, identifier, grid.encryption.keys[region])
    key = kms.Key(
        scope,
        identifier,
        alias=alias,
        description=f"traingrid {grid.name}: {alias}",
        enable_key_rotation=True,
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    )
    _let_logs_encrypt(key, region)
    _let_events_encrypt(key)
    _let_alarms_encrypt(key)
    return key


def use_key(role: iam.Role, key: kms.IKey | None, *, region: str, services: Sequence[str]) -> None:
    """Allow a role to read and write data that is encrypted with a key, only through the given services.

    The names of services are those of their endpoints: "s3", "dynamodb", "sqs"
    (https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service).
    """
    if key is not None:
        via = {"StringEquals": {"kms:ViaService": [f"{service}.{region}.amazonaws.com" for service in services]}}
        grant(role, ["kms:Decrypt", "kms:GenerateDataKey"], [key.key_arn], conditions=via)


def let_sagemaker_encrypt(role: iam.Role, key: kms.IKey | None) -> None:
    """Allow an execution role to encrypt results with the key of OutputDataConfig.KmsKeyId.

    The role "must include permissions to call kms:Encrypt"
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_OutputDataConfig.html), and no source limits that to
    calls through S3. AWS's own policy for these roles also allows kms:DescribeKey without kms:ViaService
    (https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSageMakerJobFullAccess.html).
    """
    if key is not None:
        grant(role, ["kms:Encrypt", "kms:DescribeKey"], [key.key_arn])


def read_with(role: iam.Role, keys: Sequence[str], *, region: str) -> None:
    """Allow a role to read objects in S3 that are encrypted with keys outside the grid, given by their ARNs."""
    if keys:
        via = {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}}
        grant(role, ["kms:Decrypt"], keys, conditions=via)


def use_keys_of_regions(
    role: iam.Role, grid: GridSettings, actions: Sequence[str] = ("kms:Decrypt", "kms:GenerateDataKey")
) -> None:
    """Allow a role of the home Region to use the keys of the Regions in its account, through S3.

    The ids of keys that the Regions' stacks create are unknown here, so a condition names their alias.
    """
    regions = grid.at_home()
    if grid.encryption.kind == "s3" or not regions:
        return
    via = {"kms:ViaService": [f"s3.{region}.amazonaws.com" for region in regions]}
    if grid.encryption.keys:
        keys = [grid.encryption.keys[region] for region in regions]
        grant(role, actions, keys, conditions={"StringEquals": via})
        return
    # https://docs.aws.amazon.com/kms/latest/developerguide/alias-authorization.html
    alias = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": names.data_key(grid.name)}}
    grant(
        role,
        actions,
        [f"arn:aws:kms:{region}:{Aws.ACCOUNT_ID}:key/*" for region in regions],
        conditions={"StringEquals": via, **alias},
        because="The id of a key is unknown in other Regions; the condition names its alias",
    )


def _let_logs_encrypt(key: kms.Key, region: str) -> None:
    """Allow CloudWatch Logs to encrypt the log groups of this account's Region.

    The statement is that of https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html.
    """
    groups = f"arn:aws:logs:{region}:{Aws.ACCOUNT_ID}:log-group:*"
    _allow_service(
        key,
        f"logs.{region}.amazonaws.com",
        ["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
        {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def _let_events_encrypt(key: kms.Key) -> None:
    """Allow EventBridge to put events that it cannot deliver into encrypted dead-letter queues.

    The statement is that of https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-event-delivery.html.
    """
    rules = same_account(f"arn:aws:events:*:{Aws.ACCOUNT_ID}:rule/*")
    _allow_service(key, "events.amazonaws.com", ["kms:Decrypt", "kms:GenerateDataKey*"], rules)


def _let_alarms_encrypt(key: kms.Key) -> None:
    """Allow CloudWatch to publish alarms to an encrypted topic.

    AWS's statement for this has no condition (https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html). No
    documentation confirms that CloudWatch's calls to KMS contain aws:SourceAccount, and if a condition does not match,
    alarms are lost. The topic's policy excludes alarms of other accounts.
    """
    _allow_service(key, "cloudwatch.amazonaws.com", ["kms:Decrypt", "kms:GenerateDataKey*"])


def _allow_service(
    key: kms.Key, service: str, actions: Iterable[str], conditions: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(service)],
            actions=list(actions),
            resources=["*"],  # in a key policy: this key
            conditions=conditions,
        )
    )
