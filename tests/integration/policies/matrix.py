"""The policy matrix: all cases, IAM's verdicts on them, and a summary table.

`python -m tests.integration.policies` prints the table.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.integration.policies import (
    build_cases,
    child_cases,
    cluster_cases,
    function_cases,
    key_cases,
    queue_cases,
    region_cases,
    trust_cases,
)
from tests.integration.policies.case import ALLOWED, EXPLICITLY, IMPLICITLY, Case
from tests.integration.policies.grid import ROLES, Document, documents, every_template, trust
from tests.integration.policies.simulator import verdicts

MODULES = (
    child_cases,
    cluster_cases,
    function_cases,
    build_cases,
    key_cases,
    queue_cases,
    region_cases,
    trust_cases,
)
CASES: tuple[Case, ...] = tuple(case for module in MODULES for case in module.cases())


def policies_by_role(layer: Path) -> dict[str, list[Document]]:
    """Return the permission policies of every role in the grid's templates, and its trust under "trust: <role>"."""
    made = every_template(layer)
    own = {role: documents(made, role) for role in ROLES}
    return own | {f"trust: {role}": [trust(made, role)] for role in ROLES}


def deciding(case: Case) -> str:
    """Return the key of the policies that decide a case (see `policies_by_role`)."""
    return f"trust: {case.role}" if case.by else case.role


def evaluated(cases: Sequence[Case], policies: Mapping[str, list[Document]]) -> list[str]:
    """Return the verdict on each case, from the policies of its role or trust."""
    return of_pairs([(case, policies[deciding(case)]) for case in cases])


def of_pairs(pairs: Iterable[tuple[Case, list[Document]]]) -> list[str]:
    """Return the verdict on each case, from the policies paired with it."""
    named: dict[str, list[Document]] = {}
    asked = []
    for number, (case, decisive) in enumerate(pairs):
        request = case.request(str(number))
        named[str(number)] = [] if case.by else decisive
        asked.append({**request, "trust": decisive[0]} if case.by else request)
    return verdicts(named, asked)


def table(results: Iterable[tuple[Case, str]]) -> str:
    """Return a text table with the number of cases per role and verdict."""
    counted: Counter[tuple[str, str]] = Counter((case.role, verdict) for case, verdict in results)
    rows = {role: [counted[role, verdict] for verdict in (ALLOWED, IMPLICITLY, EXPLICITLY)] for role in ROLES}
    every = [sum(column) for column in zip(*rows.values(), strict=True)]
    lines = (_line(name, *numbers) for name, numbers in {**rows, f"all {sum(every)}": every}.items())
    return "\n".join([_line("role", "allowed", "denied", "forbidden"), *lines])


def _line(name: str, *columns: object) -> str:
    return f"{name:<18}" + "".join(f"{column!s:>11}" for column in columns)


def main() -> int:
    """Print the table for the current templates; return the number of cases with an unexpected verdict."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "layer" / "python").mkdir(parents=True)
        (Path(scratch) / "layer" / "catalog" / "python").mkdir(parents=True)
        policies = policies_by_role(Path(scratch) / "layer")
        found = evaluated(CASES, policies)
    print(table(zip(CASES, found, strict=True)))
    wrong = [(case, verdict) for case, verdict in zip(CASES, found, strict=True) if verdict != case.expected]
    for case, verdict in wrong:
        print(f"{case}: {verdict}, not {case.expected}")
    return len(wrong)
