"""Rules for service queues: their capacity, and preemption."""

from collections.abc import Iterator

from tests.integration.posture.rule import Rule, added
from tests.integration.posture.synthesised import Synthesised
from traingrid.grid.queues import ServiceQueue

ENVIRONMENT, SHARE = "AWS::Batch::ServiceEnvironment", "AWS::Batch::QuotaShare"


def a_service_queue_has_the_configured_limits(made: Synthesised) -> Iterator[str]:
    for where, environment in made.properties(ENVIRONMENT):
        settings = _settings(made, where)
        limits = {limit["CapacityUnit"]: limit["MaxCapacity"] for limit in environment["CapacityLimits"]}
        if settings is None or limits != settings.limits():
            yield f"{where} runs {limits}"


def only_a_share_that_borrows_can_lose_what_it_runs(made: Synthesised) -> Iterator[str]:
    for where, share in made.properties(SHARE):
        settings, strategy = _settings(made, where), share["ResourceSharingConfiguration"]["Strategy"]
        if settings is None or (strategy != "RESERVE" and not settings.lend):
            yield f"{where} has the strategy {strategy}"
        if share.get("PreemptionConfiguration", {}).get("InSharePreemption") != "DISABLED":
            yield f"{where} preempts its own jobs"


def _settings(made: Synthesised, where: str) -> ServiceQueue | None:
    """Return grid.yaml's settings of the service queue in the Region of a resource's stack."""
    name = where.partition("/")[0].removeprefix(f"{made.grid.name}-")
    return made.grid.regions[name].service_queue if name in made.grid.regions else None


MORE = {"CapacityLimits": [{"CapacityUnit": "NUM_INSTANCES", "MaxCapacity": 10_000}]}
LENT = {
    "ResourceSharingConfiguration": {"Strategy": "LEND_AND_BORROW"},
    "PreemptionConfiguration": {"InSharePreemption": "DISABLED"},
}
RULES = (
    Rule(a_service_queue_has_the_configured_limits, (added(ENVIRONMENT, MORE),)),
    Rule(only_a_share_that_borrows_can_lose_what_it_runs, (added(SHARE, LENT),)),
)
