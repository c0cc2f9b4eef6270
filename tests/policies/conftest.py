from collections.abc import Mapping

import pytest

from tests.policies.case import Case
from tests.policies.grid import Document
from tests.policies.matrix import CASES, evaluated, policies_by_role, table

_results: list[tuple[Case, str]] = []


@pytest.fixture(scope="session")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Document]]:
    """Who may do what, and who may become whom, by the templates of one grid."""
    folder = tmp_path_factory.mktemp("policies")
    (folder / "layer" / "python").mkdir(parents=True)
    return policies_by_role(folder / "layer", folder / "assembly")


@pytest.fixture(scope="session")
def verdict(policies: Mapping[str, list[Document]]) -> dict[Case, str]:
    """What IAM says to each case; all are asked at once, because the simulator takes a second to start."""
    _results[:] = zip(CASES, evaluated(CASES, policies), strict=True)
    return dict(_results)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the matrix's table after a run that had it."""
    if _results:
        terminalreporter.section("policy matrix")
        terminalreporter.write_line(table(_results))
