"""CloudWatch Logs with keys: a log group is created only if its key admits CloudWatch Logs for this group."""

from typing import TYPE_CHECKING, Any

from moto.logs.exceptions import LogsClientError
from moto.logs.models import LogGroup, LogsBackend

from localcloud.iam.encryption_keys import key_policy
from localcloud.iam.resource_policies import allows_service

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_ACTIONS = ("kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey")
_create = LogsBackend.create_log_group


def install(cloud: "LocalCloud") -> None:
    """Replace moto's function; moto has no hook for this."""
    cloud.replace(LogsBackend, create_log_group=_create_with_key)


def _create_with_key(backend: Any, log_group_name: str, tags: dict[str, str], **options: Any) -> LogGroup:
    """Create a log group, unless its key refuses CloudWatch Logs.

    The service has the encryption context of the group
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html). The error is that of
    https://github.com/hashicorp/terraform-provider-aws/issues/29282.
    """
    region, account = backend.region_name, backend.account_id
    arn = f"arn:aws:logs:{region}:{account}:log-group:{log_group_name}"
    if key := options.get("kmsKeyId"):
        policy = key_policy(key, region, account) or {}
        context = {"kms:EncryptionContext:aws:logs:arn": arn}
        service = f"logs.{region}.amazonaws.com"
        if not all(allows_service(policy, action, service, arn, dict(context)) for action in _ACTIONS):
            message = f"The specified KMS key does not exist or is not allowed to be used with Arn '{arn}'"
            raise LogsClientError("AccessDeniedException", message)
    return _create(backend, log_group_name, tags, **options)
