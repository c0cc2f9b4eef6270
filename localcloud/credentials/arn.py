"""The parts of an ARN: arn:partition:service:region:account:resource."""


def service_of_arn(arn: str) -> str:
    """Return the service of an ARN, for example sqs."""
    return arn.split(":")[2]


def region_of_arn(arn: str) -> str:
    """Return the Region of an ARN; empty for a global resource."""
    return arn.split(":")[3]


def account_of_arn(arn: str) -> str:
    """Return the account of an ARN."""
    return arn.split(":")[4]


def name_of_arn(arn: str) -> str:
    """Return the name at the end of an ARN, after the last slash; a name without a slash is unchanged."""
    return arn.rpartition("/")[2]
