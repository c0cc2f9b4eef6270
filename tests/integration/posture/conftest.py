from pathlib import Path

import pytest

from tests.integration.posture import scanners
from tests.integration.posture.configurations import of_lane
from tests.integration.posture.every_rule import RULES
from tests.integration.posture.findings import counts
from tests.integration.posture.scanners import Scans, scan_everything
from tests.integration.posture.synthesised import Synthesised, synthesised

_FOLDER = Path(__file__).parent
_SCANS = pytest.StashKey[Scans]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Call a test for every configuration of the lane (`made`), or for every scanner of the lane (`scanner`)."""
    if "scanner" in metafunc.fixturenames:
        metafunc.parametrize("scanner", scanners.of_lane(metafunc.config.getoption("--lane")))
    if "made" in metafunc.fixturenames:
        names = of_lane(metafunc.config.getoption("--lane"))
        ids = [name.replace(" ", "-") for name in names]
        metafunc.parametrize("made", names, indirect=True, ids=ids, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the lane's configurations."""
    for item in items:
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if item.path.is_relative_to(_FOLDER) and ("made" in fixtures or "configurations" in fixtures):
            item.add_marker("each_lane")


@pytest.fixture(scope="session")
def made(request: pytest.FixtureRequest) -> Synthesised:
    """Every configuration of the lane in turn."""
    return synthesised(request.param)


@pytest.fixture(scope="session")
def configurations(pytestconfig: pytest.Config) -> tuple[str, ...]:
    """The names of the lane's configurations."""
    return of_lane(pytestconfig.getoption("--lane"))


@pytest.fixture(scope="session")
def scans(request: pytest.FixtureRequest, configurations: tuple[str, ...]) -> Scans:
    """The scans of the lane's configurations by every scanner."""
    found = scan_everything(configurations, scanners.of_lane(request.config.getoption("--lane")))
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
    failed, grids = _broken_rules(terminalreporter)
    checked = grids * len(RULES)
    terminalreporter.line(row("our own", grids, len(RULES), checked - failed, 0, failed))


def _broken_rules(reporter: pytest.TerminalReporter) -> tuple[int, int]:
    """Return the number of failed subtests, each a rule in a configuration, and the number of configurations."""
    name = "test_every_grid_satisfies_the_rule["
    reports = [report for kind in ("passed", "failed") for report in reporter.getreports(kind) if name in report.nodeid]
    broken = sum(isinstance(report, pytest.SubtestReport) for report in reports)
    return broken, len(reports) - broken
