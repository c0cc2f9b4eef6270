"""Dashboard: one for all Regions of a grid."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from traingrid import names
from traingrid.aws.embedded_metrics import NAMESPACE
from traingrid.grid.model import GridSettings

_PERIOD = Duration.minutes(5)
_LINES = ("LinesPending", "LinesWaiting", "LinesTraining")
_PASSES = ("TrainingJobs", "TrainingJobsStopped", "Unreachable", "LinesLeft")


class Dashboard(Construct):
    """A dashboard of waiting and training lines, passes, undelivered events, and hosts' utilization by Region.

    A dashboard can show metrics of any Region
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cross_region_dashboard.html), and of accounts that
    share their metrics
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Unified-Cross-Account.html).
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings) -> None:
        super().__init__(scope, identifier)
        self._grid = grid
        board = cloudwatch.Dashboard(
            self, "Board", dashboard_name=grid.name, period_override=cloudwatch.PeriodOverride.INHERIT
        )
        board.add_widgets(self._pass_graph("Lines that have not ended", _LINES), self._pass_graph("Sweeps", _PASSES))
        board.add_widgets(self._undelivered_events(), self._functions())
        for region in grid.regions:
            board.add_widgets(self._hosts(region, "GPUUtilization"), self._hosts(region, "CPUUtilization"))

    def _pass_graph(self, title: str, metrics: tuple[str, ...]) -> cloudwatch.GraphWidget:
        searches = [
            cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=metric,
                dimensions_map={"grid": self._grid.name},
                period=_PERIOD,
                statistic="Maximum",
            )
            for metric in metrics
        ]
        return cloudwatch.GraphWidget(title=title, width=12, left=searches, region=self._grid.home)

    def _undelivered_events(self) -> cloudwatch.GraphWidget:
        """Show the depth of every dead-letter queue; its name begins with its stack's name."""
        control = names.control_stack(self._grid.name)
        accounts = self._grid.other_accounts()
        stacks = {control: self._grid.home} | {
            names.region_stack(self._grid.name, region): region for region in self._grid.regions
        }
        depths = [
            self._search(
                f'{{AWS/SQS,QueueName}} MetricName="ApproximateNumberOfMessagesVisible" QueueName="{stack}"',
                region=region,
                account=None if stack == control else accounts.get(region),  # the control stack is in the home account
            )
            for stack, region in stacks.items()
        ]
        return cloudwatch.GraphWidget(title="Events that could not be delivered", width=12, left=depths)

    def _functions(self) -> cloudwatch.GraphWidget:
        stack = names.control_stack(self._grid.name)
        searches = [
            self._search(
                f'{{AWS/Lambda,FunctionName}} MetricName="{metric}" FunctionName="{stack}"',
                region=self._grid.home,
                statistic="Sum",
            )
            for metric in ("Errors", "Throttles")
        ]
        return cloudwatch.GraphWidget(title="Functions: errors and throttles", width=12, left=searches)

    def _hosts(self, region: str, metric: str) -> cloudwatch.GraphWidget:
        search = f'{{/aws/sagemaker/TrainingJobs,Host}} MetricName="{metric}" Host="{self._grid.name}-"'
        account = self._grid.other_accounts().get(region)
        metrics = self._search(search, region=region, statistic="Average", account=account)
        return cloudwatch.GraphWidget(title=f"{region}: {metric} of hosts, %", width=12, left=[metrics])

    def _search(
        self, search: str, *, region: str, statistic: str = "Maximum", account: str | None = None
    ) -> cloudwatch.MathExpression:
        return cloudwatch.MathExpression(
            expression=f"SEARCH('{search}', '{statistic}', {_PERIOD.to_seconds():.0f})",
            label="",
            period=_PERIOD,
            search_region=region,
            search_account=account,
        )
