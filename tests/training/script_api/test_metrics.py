"""Metrics of scripts, as the control plane's expressions find them."""

import re

import pytest

from training_container.script_api import metrics


def test_values_are_printed_in_one_line_that_the_default_expressions_match(capsys: pytest.CaptureFixture[str]) -> None:
    metrics.report(epoch=3, loss=0.123456789, rate=1e-7)
    printed = capsys.readouterr().out
    assert printed == "epoch=3 loss=0.123457 rate=1e-07\n"
    # The form of traingrid/job/metrics.py, metric_regex.
    assert re.findall(r"\b(\w+)=([-+0-9.eE]+)", printed) == [("epoch", "3"), ("loss", "0.123457"), ("rate", "1e-07")]
