"""Access: recognizes a request that failed because the user's credentials have expired, or cannot be refreshed."""

from botocore.exceptions import (
    NoCredentialsError,
    SSOError,
    TokenRetrievalError,
)

from traingrid.aws.outage import is_expired

EXPIRED = "The AWS credentials have expired, or are missing."
RENEW = (
    "Renew them as you got them, for example with `aws sso login`; then this page continues. If they are in "
    "environment variables, set new ones and start `traingrid ui` again."
)


def lacks_credentials(error: Exception) -> bool:
    """Return True if the same request may succeed with new credentials.

    botocore raises SSOError and TokenRetrievalError if the session of IAM Identity Center has ended
    (https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-sso.html).
    """
    return is_expired(error) or isinstance(error, NoCredentialsError | SSOError | TokenRetrievalError)
