"""Log settings: the retention and encryption of the control plane's log groups."""

from dataclasses import dataclass

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.grants import KEYS_OF_AWS, acknowledge
from traingrid.grid.model import GridSettings

_BY_DAYS = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1096: logs.RetentionDays.THREE_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    2192: logs.RetentionDays.SIX_YEARS,
    2557: logs.RetentionDays.SEVEN_YEARS,
    2922: logs.RetentionDays.EIGHT_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}


@dataclass(frozen=True, kw_only=True)
class LogKeeping:
    """The retention of logs, and the key that encrypts them: CloudWatch's own if it is None."""

    retention: logs.RetentionDays
    key: kms.IKey | None

    def log_group(self, scope: Construct, identifier: str, name: str | None = None) -> logs.LogGroup:
        """Return a new log group that is deleted with its stack. CloudFormation names it if `name` is None."""
        group = logs.LogGroup(
            scope,
            identifier,
            log_group_name=name,
            retention=self.retention,
            encryption_key=self.key,
            removal_policy=RemovalPolicy.DESTROY,
        )
        if self.key is None:
            acknowledge(group, "NIST.800.53.R5-CloudWatchLogGroupEncrypted", KEYS_OF_AWS, checkov="CKV_AWS_158")
        return group


def log_keeping(grid: GridSettings, key: kms.IKey | None) -> LogKeeping:
    """Return the log settings of a grid. Every number of days that grid.yaml allows is a retention of CloudWatch."""
    return LogKeeping(retention=_BY_DAYS[grid.log_retention_days], key=key)
