"""The policy matrix: every case, what IAM says to it, and the table of it.

`python -m tests.policies` prints the table.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.policies import build_cases, child_cases, function_cases, key_cases, queue_cases, region_cases, trust_cases
from tests.policies.case import ALLOWED, EXPLICITLY, IMPLICITLY, Case
from tests.policies.grid import ROLES, Document, documents, the_templates, trust
from tests.policies.simulator import verdicts

MODULES = (child_cases, function_cases, build_cases, key_cases, queue_cases, region_cases, trust_cases)
CASES: tuple[Case, ...] = tuple(case for module in MODULES for case in module.cases())


def policies_by_role(layer: Path, folder: Path) -> dict[str, list[Document]]:
    """Return the policies of every role of the grid's templates, and under "trust: <role>" who may become it."""
    made = the_templates(layer, folder)
    own = {role: documents(made, role) for role in ROLES}
    return own | {f"trust: {role}": [trust(made, role)] for role in ROLES}


def deciding(case: Case) -> str:
    """Return under which name the policies are that decide a case."""
    return f"trust: {case.role}" if case.by else case.role


def evaluated(cases: Sequence[Case], policies: Mapping[str, list[Document]]) -> list[str]:
    """Return the verdict on each case; `policies` are a role's, by `deciding`."""
    return of_pairs([(case, policies[deciding(case)]) for case in cases])


def of_pairs(pairs: Iterable[tuple[Case, list[Document]]]) -> list[str]:
    """Return the verdict on each case by the policies beside it."""
    named: dict[str, list[Document]] = {}
    asked = []
    for number, (case, decisive) in enumerate(pairs):
        request = case.request(str(number))
        named[str(number)] = [] if case.by else decisive
        asked.append({**request, "trust": decisive[0]} if case.by else request)
    return verdicts(named, asked)


def table(results: Iterable[tuple[Case, str]]) -> str:
    """Return how many cases of each role have which verdict, as a table of text."""
    counted: Counter[tuple[str, str]] = Counter((case.role, verdict) for case, verdict in results)
    rows = {role: [counted[role, verdict] for verdict in (ALLOWED, IMPLICITLY, EXPLICITLY)] for role in ROLES}
    every = [sum(column) for column in zip(*rows.values(), strict=True)]
    lines = (_line(name, *numbers) for name, numbers in {**rows, f"all {sum(every)}": every}.items())
    return "\n".join([_line("role", "allowed", "denied", "forbidden"), *lines])


def _line(name: str, *columns: object) -> str:
    return f"{name:<18}" + "".join(f"{column!s:>11}" for column in columns)


def main() -> int:
    """Print the table of a grid's policies as they are now; return how many cases are not as they should be."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "layer" / "python").mkdir(parents=True)
        policies = policies_by_role(Path(scratch) / "layer", Path(scratch) / "assembly")
        found = evaluated(CASES, policies)
    print(table(zip(CASES, found, strict=True)))
    wrong = [(case, verdict) for case, verdict in zip(CASES, found, strict=True) if verdict != case.expected]
    for case, verdict in wrong:
        print(f"{case}: {verdict}, not {case.expected}")
    return len(wrong)
