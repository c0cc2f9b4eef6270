"""Text that differs from its appearance: typographic quotes, and hyperparameters that are mixed up."""

import json

import pytest

from tests.unit.manifest.test_forms import errors_of, jobs_of
from traingrid.manifest.errors import LineError

URI = "s3://ragab-ml/x"


def error_of(content: str) -> LineError:
    (error,) = errors_of(content)
    return error


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hp.lr.1", "the hyperparameter of column 4 is below 'lr', which has a value itself"),
        ("hp.lr.decay.rate", "the hyperparameter of column 4 is below 'lr'"),
        ("hp.LR", "the hyperparameter of column 4 differs from 'lr' by case or blanks only"),
        ("hp.l r", "the hyperparameter of column 4 differs from 'lr' by case or blanks only"),
    ],
)
def test_mixed_up_columns_are_an_error_of_the_header(name: str, reason: str) -> None:
    error = error_of(f"region,s3_uri,hp.lr,{name}\nus-east-1,{URI},0.1,\n")
    assert (error.line, error.value) == (1, repr(name))
    assert reason in error.reason
    assert error.next_step


@pytest.mark.parametrize("name", ["lr.1", "LR", "l r"])
def test_mixed_up_hyperparameters_of_json_are_an_error_of_the_line(name: str) -> None:
    line = {"region": "us-east-1", "s3_uri": URI, "hyperparameters": {name: 0.2, "lr": 0.1}}
    error = error_of(json.dumps(line))
    assert error.line == 1
    assert error.field.startswith("hyperparameters.")
    assert "'lr'" in error.reason or f"'{name}'" in error.reason


def test_other_names_are_accepted() -> None:
    (job,) = jobs_of(f"region,s3_uri,hp.lr,hp.lr_1,hp.adam.lr,hp.adam.b1,env.A,env.a\nus-east-1,{URI},1,2,3,4,5,6\n")
    assert job.hyperparameters.keys() >= {"lr", "lr_1", "adam.lr", "adam.b1"}


QUOTED = ["\u201c0.1\u201d", "\u20180.1\u2019", "\u201e0.1\u201c", "\u00ab0.1\u00bb", "\u201c0.1", "0.1\u201d"]


@pytest.mark.parametrize("value", QUOTED)
def test_a_typographic_quote_around_a_cell_is_named(value: str) -> None:
    error = error_of(f"region,s3_uri,hp.lr\nus-east-1,{URI},{value}\n")
    assert error.line == 2
    assert error.reason.startswith("the cell of column 3 has U+")
    assert error.reason.endswith(" around it")
    assert error.next_step == 'Replace the quotes by ", or remove them.'
    plain = error_of(f"us-east-1,{URI},{value}\n")
    assert "the cell of column 3 has U+" in plain.reason


@pytest.mark.parametrize("value", QUOTED)
@pytest.mark.parametrize("escaped", [True, False])
def test_a_typographic_quote_around_a_text_of_json_is_named(value: str, escaped: bool) -> None:
    for values in ({"hyperparameters": {"lr": value}}, {"name": value}, {"hyperparameters": {value: 1}}):
        line = {"region": "us-east-1", "s3_uri": URI, **values}
        error = error_of(json.dumps(line, ensure_ascii=escaped))
        (name,) = values
        assert error.reason.startswith(f"'{name}' has a text with U+")


def test_a_typographic_quote_in_place_of_one_of_json_is_named() -> None:
    error = error_of(f'{{"region": \u201cus-east-1\u201d, "s3_uri": "{URI}"}}')
    assert "at character 12, which is U+201C LEFT DOUBLE QUOTATION MARK" in error.reason


@pytest.mark.parametrize("name", ["the dogs\u2019", "l\u2019\u00e9t\u00e9", "a \u201cgood\u201d one"])
def test_quotes_inside_a_text_and_apostrophes_are_accepted(name: str) -> None:
    (job,) = jobs_of(f"us-east-1,{URI},{name}\n")
    assert job.name == name
