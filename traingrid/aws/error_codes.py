"""Error codes: the codes of rejected AWS calls, grouped by the reason of the rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Error codes of rejected calls. Throttling: botocore.retries.standard, ThrottledRetryableChecker. The others:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html and the errors of CreateTrainingJob there.
THROTTLED_CODES = {
    *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException", "RequestThrottled"),
    *("TooManyRequestsException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "SlowDown"),
    *("BandwidthLimitExceeded", "LimitExceededException", "TransactionInProgressException"),
}
PERMISSION_CODES = {"AccessDenied", "AccessDeniedException", "NotAuthorized", "UnauthorizedOperation", "OptInRequired"}
INVALID_CODES = {
    *("ValidationException", "ValidationError", "ResourceNotFound", "InvalidParameterValue", "MalformedQueryString"),
    *("InvalidParameterCombination", "MissingParameter", "InvalidAction", "SerializationException"),
}
QUOTA_CODE = "ResourceLimitExceeded"
"""CreateTrainingJob's error code for an exceeded quota."""
_FORBIDDEN = (401, 403)
EXPIRED_CODES = {
    *("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired", "RequestTimeTooSkewed"),
}
"""Codes of expired credentials: https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html, and those of S3
and DynamoDB."""
INVALID_CREDENTIAL_CODES = {
    *("InvalidClientTokenId", "UnrecognizedClientException", "InvalidToken", "AuthFailure"),
    *("IncompleteSignature", "MissingAuthenticationToken", "AuthorizationHeaderMalformed"),
    *("SignatureDoesNotMatch", "InvalidSignatureException"),
}
"""Codes of refused credentials, which some services send with the status 400 (CommonErrors, as above), also in a Region
that the account has not enabled."""
KNOWN_CODES = frozenset({*THROTTLED_CODES, *PERMISSION_CODES, *INVALID_CODES, QUOTA_CODE})
"""The codes with a known reason; all others count as errors of the service."""


def concerns_credentials(response: Mapping[str, Any]) -> bool:
    """Return True for the response of a rejected call that other credentials or permissions could make succeed.

    Args:
        response: `ClientError.response`.
    """
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    codes = EXPIRED_CODES | INVALID_CREDENTIAL_CODES | PERMISSION_CODES
    return status in _FORBIDDEN or response.get("Error", {}).get("Code") in codes
