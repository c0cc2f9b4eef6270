"""Budget: a monthly limit of the grid's costs, if grid.yaml sets one."""

import hashlib
import json

from aws_cdk import aws_budgets as budgets
from constructs import Construct

from traingrid import names
from traingrid.grid.model import GridSettings

SHARES = (50, 80, 100)
"""Percentages of the budget at which AWS Budgets sends emails."""


def budget(scope: Construct, grid: GridSettings) -> None:
    """Add a budget for all resources with the grid's tag. The account has to activate the tag for cost allocation.

    https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html
    """
    if grid.alarms.monthly_budget_usd is None:
        return
    subscribers = [
        budgets.CfnBudget.SubscriberProperty(address=email, subscription_type="EMAIL") for email in grid.alarms.emails
    ]
    notifications = [
        budgets.CfnBudget.NotificationWithSubscribersProperty(
            notification=budgets.CfnBudget.NotificationProperty(
                notification_type="ACTUAL",
                comparison_operator="GREATER_THAN",
                threshold=share,
                threshold_type="PERCENTAGE",
            ),
            subscribers=subscribers,
        )
        for share in SHARES
    ]
    budgets.CfnBudget(
        scope,
        "Budget",
        budget=budgets.CfnBudget.BudgetDataProperty(
            budget_name=_name(grid),
            budget_type="COST",
            time_unit="MONTHLY",
            budget_limit=budgets.CfnBudget.SpendProperty(amount=grid.alarms.monthly_budget_usd, unit="USD"),
            cost_filters={"TagKeyValue": [f"user:{names.TAG_GRID}${grid.name}"]},
        ),
        notifications_with_subscribers=notifications,
    )


def _name(grid: GridSettings) -> str:
    """Return the budget's name, which depends on its subscribers.

    CloudFormation replaces a budget whose notifications change (createOnlyProperties of AWS::Budgets::Budget). It
    creates the new one before it deletes the old one, which fails if both have the same name.
    """
    notifications = json.dumps([SHARES, grid.alarms.emails])
    return f"{grid.name}-{hashlib.sha256(notifications.encode()).hexdigest()[:8]}"
