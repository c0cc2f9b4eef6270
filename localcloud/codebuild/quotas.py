"""CodeBuild's error for builds beyond the account's quota of concurrent builds."""

from moto.core.exceptions import JsonRESTError


class AccountLimitExceededError(JsonRESTError):  # type: ignore[misc] # moto is untyped to us
    """StartBuild exceeds the quota; the message is CodeBuild's.

    AWS documents that builds wait in a queue of five times the quota
    (https://docs.aws.amazon.com/codebuild/latest/userguide/builds-working.html). Accounts with a quota of 1 or 0 get
    this error instead (https://github.com/awslabs/landing-zone-accelerator-on-aws/issues/249,
    https://github.com/aws-ia/terraform-aws-control_tower_account_factory/issues/100), so localcloud always raises it.
    """

    code = 400

    def __init__(self, limit: int) -> None:
        super().__init__(
            "AccountLimitExceededException", f"Cannot have more than {limit} builds in queue for the account"
        )
