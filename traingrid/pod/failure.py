"""Failure: the texts of failures, in the form of SageMaker's FailureReason.

`traingrid.job.failures` classifies a FailureReason by its prefix and words, on SageMaker as well as on Kubernetes. The
prefixes are those that users report: "ClientError: Data download failed:Insufficient disk space"
(https://github.com/aws/sagemaker-python-sdk/issues/128) and "ClientError: Artifact upload failed:..."
(https://github.com/aws/amazon-sagemaker-operator-for-k8s/pull/22).
"""

import errno
from collections.abc import Mapping
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.exceptions import ClientError, CredentialRetrievalError, NoCredentialsError

from traingrid.aws.access_denied import access_denied
from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.errors import TraingridError
from traingrid.text import printable

MAX_CHARACTERS = 1024
"""Maximum length of a FailureReason
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html)."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = PERMISSION_CODES | {"403", "Forbidden", "AllAccessDisabled"}


class PodError(TraingridError):
    """A failure whose text is that of a FailureReason."""


def description_error(detail: str) -> PodError:
    """Return the error of a pod that was described wrongly, for which the user is not responsible."""
    return PodError(f"InternalServerError: {detail}")


def download_error(detail: str) -> PodError:
    """Return the error of data that cannot be downloaded."""
    return PodError(f"ClientError: Data download failed:{detail}")


def upload_error(detail: str) -> PodError:
    """Return the error of results that cannot be uploaded."""
    return PodError(f"ClientError: Artifact upload failed:{detail}")


def explained(error: Exception, request: Mapping[str, Any]) -> str:
    """Return the reason of an error, with the role or the setting that the user can change."""
    role = request.get("RoleArn", "")
    if isinstance(error, NoCredentialsError | CredentialRetrievalError):
        return (
            f"Could not assume role {role}: {error}. Check the EKS Pod Identity association of the pod's service "
            "account, and that the EKS Pod Identity Agent runs on the node."
        )
    if is_denied(error):
        reason = access_denied(error) or error
        return f"Access denied: {reason}. Check the permissions of the role {role}, which the pod should have."
    if isinstance(error, OSError) and error.errno in _FULL:
        return disk_full(request)
    return str(error)


def is_denied(error: Exception) -> bool:
    """Return True if AWS denied the request; boto3 wraps the error of an upload."""
    if isinstance(error, ClientError):
        return error.response["Error"]["Code"] in _DENIED
    return isinstance(error, Boto3Error) and "AccessDenied" in str(error)


def disk_full(request: Mapping[str, Any], needed: str = "") -> str:
    """Return the sentence for a volume that is too small, in SageMaker's words and with our setting."""
    size = request.get("ResourceConfig", {}).get("VolumeSizeInGB")
    more = f", and the data has at least {needed}" if needed else ""
    return f"Insufficient disk space: the volume has {size} GB{more}. Set a higher volume_gb."


def one_line(text: str) -> str:
    """Return a text as one printable line of at most the length of a FailureReason."""
    return printable(" ".join(text.split()))[:MAX_CHARACTERS]
