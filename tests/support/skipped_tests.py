"""Skipped tests: a plugin of pytest that skips tests by packages.py, and counts those that each package would add."""

import pytest

from tests.support.packages import require, summary


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "needs(name): a package, a target of make, or a variable (packages.py)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before its fixtures start."""
    require(*dict.fromkeys(mark.args[0] for mark in item.iter_markers("needs")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests each missing package would add."""
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    if skipped:
        terminalreporter.write_line(summary(skipped))
