"""Metrics: the trainer's output matches the regular expressions, which another package declares separately."""

import re
import string

import pytest
import re2

from traingrid.grid.job_defaults import JobDefaults
from traingrid.job.metrics import metric_regex
from traingrid.manifest.metrics import metrics
from traingrid.metrics.patterns import number
from training_container.recipe import metric_lines

NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_./-")
SEPARATORS = frozenset("'*+,-./:[\\]^_`~\x7f") | frozenset(map(chr, range(9)))
"""Characters that join digits, as in 1,234 1'234 1_000 1/3 1:30 2*3 2^3 1-2 1~2, and those that have no glyph."""
MULTIPLIERS = frozenset("kKMGTPEeZYRQbB")
ASCII = [chr(code) for code in range(128)]
MAX_METRIC_DEFINITIONS = 40
"""Of a training job (AlgorithmSpecification.MetricDefinitions in SageMaker's API reference)."""


def values() -> dict[str, float]:
    """Return a different value for each metric, including values with an exponent or a sign."""
    return {name: (-1) ** place * 10.0 ** (place - 9) for place, name in enumerate(metric_lines.METRICS, start=1)}


@pytest.mark.parametrize("name", [name for name in metric_lines.METRICS if name != "epoch"])
def test_every_metrics_regex_finds_its_value_in_a_line_of_all_metrics(name: str) -> None:
    others = {other: value for other, value in values().items() if other != "epoch"}
    printed = metric_lines.line(3, others)
    found = re.findall(metric_regex(name), printed)
    assert [float(value) for value in found] == [pytest.approx(values()[name])]
    assert re.findall(metric_regex("epoch"), printed) == ["3"]


def test_the_grids_default_metrics_are_those_of_the_trainer() -> None:
    assert JobDefaults.model_fields["metrics"].default == metric_lines.BY_DEFAULT


def test_all_metrics_may_be_named_in_a_manifest_at_once() -> None:
    assert list(metrics(list(metric_lines.METRICS))) == list(metric_lines.METRICS)
    assert len(metric_lines.METRICS) <= MAX_METRIC_DEFINITIONS


def test_the_trainer_prints_only_metrics_that_are_declared() -> None:
    with pytest.raises(KeyError, match="top_3 is not declared"):
        metric_lines.line(1, {"top_3": 0.5})


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        *((f"rate={number}{end}", number) for number in ("0.5", "7E-5", "-1e+3", "3") for end in ("", " ", ",x=1")),
        *((f"rate=0.5{end}", "0.5") for end in ("%", "s", "'", "'}", ", 3", ";", ")", "\u2502", "\n", "\r", "/s", "]")),
        *((f"rate=0.5{unit}{end}", "0.5") for unit in ("GB", "kB", "Mbit/s", "ms", "x") for end in ("", " ", ", 3")),
        ("x=1,234 rate=0.5", "0.5"),
        ("rate=1,234 rate=0.5", "0.5"),
    ],
)
def test_a_number_is_found_whatever_follows_it(printed: str, value: str) -> None:
    assert [match.group(1) for match in re.finditer(metric_regex("rate"), printed)] == [value]


@pytest.mark.parametrize(
    "printed",
    [
        *("1,234.5", "1,234", "12,345,678", "98,5", "1_000", "1'234.5", "1.234,5", "1.2.3", "1..5", "2026-11-27"),
        *("1.5k", "1.5K", "2M", "3G", "1T", "5P", "1.5B", "7b", "1.5Ki", "2Mi", "5M/s", "5e"),
        *("0x1f", "0xff", "0X0", "0b101", "0o17"),
        *("1.5D-03", "1.5d+3", "1.5d0", "1.5f-3", "1.5*10^-3", "1.5*-3", "5**2", "10^3", "10^-3"),
        *("1/3", "45/50", "1:30", "1h30m", "5min30s", "1-2", "0.5+-0.1", "0.5+/-0.1", "1+2j", "1~2"),
        *("1 234,5", "1 234 567,8", "12 345,67", "-1 234,5", "1\u00a0234,5", "1\u202f234,5", "1_234.5", "1\u2019234.5"),
        *("1\u00a0234", "1\u202f234", "1\u2009234", "1\u2019234", "1\u066c234", "1.5\u00d710", "0.5\u00b10.1"),
    ],
)
def test_the_part_of_a_number_before_its_end_is_no_value(printed: str) -> None:
    assert values_of(f"epoch=3 rate={printed} top1=0.5") == []


def values_of(printed: str, name: str = "rate") -> list[str]:
    """Return the values of a metric in a text, which both engines find."""
    matches = [[match.group(1) for match in engine.finditer(metric_regex(name), printed)] for engine in (re, re2)]
    assert matches[0] == matches[1]
    return [text for text in matches[0] if number(text) is not None]


@pytest.mark.parametrize("after", ["234", "34,5", "2345,6", "234, 5", "234,", "234 images", "200/500", "234 567", ""])
def test_a_blank_that_does_not_group_digits_ends_a_number(after: str) -> None:
    assert values_of(f"rate=1 {after}") == values_of(f"rate=1 {after} top1=0.5") == ["1"]


@pytest.mark.parametrize("before", ASCII)
def test_a_name_begins_after_each_character_that_no_name_has(before: str) -> None:
    assert values_of(f"val{before}rate=0.5") == ([] if before in NAME_CHARACTERS else ["0.5"])


@pytest.mark.parametrize("code", ["\x1b[m", "\x1b[1m", "\x1b[38;5;196m", "\x1b[K", "\x1b[2K\x1b[1m", "\x1b[?25l"])
def test_a_colour_code_does_not_belong_to_a_name_or_a_number(code: str) -> None:
    assert values_of(f"{code}rate=0.5{code}") == values_of(f"epoch {code}rate=0.5{code}3") == ["0.5"]
    assert values_of(f"val/{code}rate=0.5") == []


def test_a_letter_outside_ascii_belongs_to_the_name() -> None:
    assert re.search(metric_regex("rate"), "\u0394rate=0.5") is None
    assert values_of("epoch=3\uff0crate=0.5") == ["0.5"]


@pytest.mark.parametrize("after", ASCII)
def test_the_characters_after_a_number_decide_if_it_has_ended(after: str) -> None:
    at_the_end = [] if after in MULTIPLIERS else ["0.25"]
    before_a_digit = [] if after in SEPARATORS or after.isalpha() else ["0.25"]
    if after.isdigit():
        at_the_end, before_a_digit = [f"0.25{after}"], [f"0.25{after}7"]
    elif after in "eE":
        before_a_digit = [f"0.25{after}7"]
    for end in ("", " ", " 3", ")", "\x1b[0m"):
        assert values_of(f"rate=0.25{after}{end}") == at_the_end
    assert values_of(f"rate=0.25{after}7 top1=1") == before_a_digit


@pytest.mark.parametrize(
    "unit", ["kB", "GiB", "Gb", "Mbit/s", "ms", "img/s", "min", "m", "eV", "epochs", "bytes", "x", "%", "\u00b5s"]
)
def test_a_number_may_have_a_unit(unit: str) -> None:
    assert values_of(f"rate=1.5{unit}") == values_of(f"rate=1.5{unit}, 3") == ["1.5"]


@pytest.mark.parametrize("end", [".", "...", "->0.4", ", 3", ".)", " e-3"])
def test_punctuation_does_not_belong_to_a_number(end: str) -> None:
    assert values_of(f"rate=0.5{end}") == ["0.5"]


def test_the_expression_of_the_longest_name_is_one_that_sagemaker_accepts() -> None:
    name = "m" * 255
    assert metrics([name]) == {name: metric_regex(name)}
