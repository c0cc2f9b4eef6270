from collections.abc import Mapping

import pytest

from tests.integration.policies.case import Case
from tests.integration.policies.grid import Document
from tests.integration.policies.matrix import CASES, evaluated, policies_by_role, table

_results: list[tuple[Case, str]] = []


@pytest.fixture(scope="session")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Document]]:
    """Return the permission and trust policies of one grid's templates."""
    folder = tmp_path_factory.mktemp("policies")
    (folder / "layer" / "python").mkdir(parents=True)
    (folder / "layer" / "catalog" / "python").mkdir(parents=True)
    return policies_by_role(folder / "layer")


@pytest.fixture(scope="session")
def verdict(policies: Mapping[str, list[Document]]) -> dict[Case, str]:
    """Return IAM's verdict on each case; one call covers all, because the simulator takes a second to start."""
    _results[:] = zip(CASES, evaluated(CASES, policies), strict=True)
    return dict(_results)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a summary of the matrix at the end of a run that evaluated it."""
    if _results:
        terminalreporter.section("policy matrix")
        terminalreporter.write_line(table(_results))
