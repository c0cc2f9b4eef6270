"""Alarms: the `alarms` section of grid.yaml, with the notified addresses and the monthly budget."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from traingrid.grid.field_types import Count, broken_rule
from traingrid.grid.part import GridPart

Email = Annotated[str, StringConstraints(pattern=r"^[^@\s]{1,64}@[^@\s]+\.[^@\s]+$", max_length=320, strict=True)]


class Alarms(GridPart):
    """The recipients of notifications. The alarms themselves always exist, and the dashboard shows them."""

    emails: tuple[Email, ...] = Field(default=(), max_length=10, examples=[["ml-on-call@example.com"]])
    """Addresses that are notified; each must confirm once for the home Region and once for each training Region. A
    budget has at most ten subscribers
    (https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-managing-costs.html)."""
    monthly_budget_usd: Count | None = Field(default=None, examples=[20000])
    """Monthly budget of the grid in US dollars: at 50, 80 and 100 % of it the emails are notified. AWS Budgets counts
    by the cost-allocation tag traingrid:grid, which you must activate in the account; the budget stops no jobs."""

    @model_validator(mode="after")
    def _somebody_hears_of_the_budget(self) -> Self:
        if self.monthly_budget_usd is not None and not self.emails:
            raise broken_rule("monthly_budget_usd requires at least one address in emails", "emails", example=True)
        return self
