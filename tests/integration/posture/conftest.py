from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integration.posture.configurations import CONFIGURATIONS
from tests.integration.posture.findings import counts
from tests.integration.posture.scanners import Scans, scan_everything
from tests.integration.posture.synthesised import Synthesised, synthesised

_SCANS = pytest.StashKey[Scans]()


@pytest.fixture(scope="session", params=CONFIGURATIONS, ids=lambda name: name.replace(" ", "-"))
def made(request: pytest.FixtureRequest) -> Synthesised:
    """Every configuration in turn."""
    return synthesised(request.param)


@pytest.fixture(scope="session")
def scans(request: pytest.FixtureRequest) -> Scans:
    """The scans of every configuration by every scanner."""
    found = scan_everything()
    request.config.stash[_SCANS] = found
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print a table of the results: rules times configurations."""
    found = config.stash.get(_SCANS, None)
    if found is None:
        return
    row = "{:<16} {:>14} {:>6} {:>8} {:>13} {:>7}".format
    terminalreporter.section("rules x configurations")
    terminalreporter.line(row("", "configurations", "rules", "passed", "acknowledged", "failed"))
    for scanner, scans in found.items():
        of = counts(scans.values())
        terminalreporter.line(row(scanner, of.configurations, of.rules, of.passed, of.acknowledged, of.failed))
    outcomes = _outcomes(terminalreporter)
    ours = (len(CONFIGURATIONS), outcomes.total() // len(CONFIGURATIONS), outcomes["passed"], 0, outcomes["failed"])
    terminalreporter.line(row("our own", *ours))


def _outcomes(reporter: pytest.TerminalReporter) -> Counter[str]:
    """Return the number of tests of our own rules by outcome."""
    return Counter({kind: sum(1 for _ in _reports(reporter, kind)) for kind in ("passed", "failed")})


def _reports(reporter: pytest.TerminalReporter, kind: str) -> Iterator[str]:
    for report in reporter.getreports(kind):
        if "test_every_grid_satisfies_the_rule[" in report.nodeid:
            yield report.nodeid
