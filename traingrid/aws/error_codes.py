"""Error codes: the codes of rejected AWS calls, grouped by the reason of the rejection."""

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
KNOWN_CODES = frozenset({*THROTTLED_CODES, *PERMISSION_CODES, *INVALID_CODES, QUOTA_CODE})
"""The codes with a known reason; all others count as errors of the service."""
