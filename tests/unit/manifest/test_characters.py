"""Characters: values and names that differ from their appearance are errors."""

import json

import pytest

from tests.support.manifest_errors import lines_of, only_error
from traingrid.manifest.errors import ManifestError

MONDAY = "us-east-1,s3://ragab-ml/a/monday"


def hyperparameters_of(header: str, cells: str) -> dict[str, str]:
    (line,) = lines_of(f"region,s3_uri,{header}\n{MONDAY},{cells}\n")
    return line.settings.hyperparameters


@pytest.mark.parametrize("cell", ['"64,32"', ' "64,32"', '   "64,32"  ', '" 64,32 "'])
def test_a_quoted_cell_after_a_blank_is_one_cell(cell: str) -> None:
    if not cell.endswith(" "):
        assert hyperparameters_of("hp.layers", cell) == {"layers": "64,32"}
    else:
        assert "invalid CSV" in only_error(f"region,s3_uri,hp.layers\n{MONDAY},{cell}\n").reason


def test_aligned_csv_is_read_as_meant() -> None:
    header = "region   , s3_uri                  , hp.layers, hp.optimizer"
    (line,) = lines_of(f'{header}\nus-east-1, s3://ragab-ml/a/monday  , "64,32"  , "adam"\n'.replace('"  ,', '",'))
    assert line.settings.hyperparameters == {"layers": "64,32", "optimizer": "adam"}


@pytest.mark.parametrize("blank", ["\t", "\xa0", " \xa0", "\u3000"])
def test_a_quote_after_another_blank_is_an_error(blank: str) -> None:
    error = only_error(f'region,s3_uri,hp.layers,hp.dropout\n{MONDAY},{blank}"64,32"\n')
    assert error.line == 2
    assert error.reason.startswith("invalid CSV")


def test_quotes_in_a_value_are_kept() -> None:
    assert hyperparameters_of("hp.a,hp.b", '"""x"" y",5" disk') == {"a": '"x" y', "b": '5" disk'}


@pytest.mark.parametrize("name", ["hp. lr", "hp.\xa0lr", "hp.lr ", "hp.\tlr", " hp. lr "])
def test_blanks_around_a_name_are_removed(name: str) -> None:
    assert hyperparameters_of(name, "0.1") == {"lr": "0.1"}


def test_names_that_differ_in_blanks_are_one_column_twice() -> None:
    error = only_error(f"region,s3_uri,hp.lr,hp. lr\n{MONDAY},0.1,0.2\n")
    assert error.reason == "the header has the column 'hp.lr' 2 times"


@pytest.mark.parametrize(
    ("column", "character"),
    [
        ("hp.lr\u200b", "U+200B ZERO WIDTH SPACE"),
        ("hp.\u200flr", "U+200F RIGHT-TO-LEFT MARK"),
        ("hp.l\u00adr", "U+00AD SOFT HYPHEN"),
        ("env.S\u2060EED", "U+2060 WORD JOINER"),
        ("tag.te\ufeffam", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("hp.l\u3164r", "U+3164 HANGUL FILLER"),
        ("hp.l\xa0r", "U+00A0 NO-BREAK SPACE"),
    ],
)
def test_an_invisible_character_in_a_column_is_one_error_that_names_it(column: str, character: str) -> None:
    error = only_error(f"region,s3_uri,{column}\n{MONDAY},1\n{MONDAY},2\n")
    assert (error.line, error.value) == (1, ascii(column))
    assert error.reason == f"the name of column 3 has {character}"


@pytest.mark.parametrize("header", ["hp.lr;hp.momentum", "hp.lr;momentum", "hp.lr|hp.momentum", "hp.lr\thp.momentum"])
def test_another_separator_in_a_column_is_an_error(header: str) -> None:
    error = only_error(f"region,s3_uri,{header}\n{MONDAY},0.1;0.9\n")
    assert (error.line, error.value) == (1, ascii(header))
    assert "commas separate the columns" in error.reason


@pytest.mark.parametrize(
    ("value", "character"),
    [
        ("0.1\u200b", "U+200B ZERO WIDTH SPACE"),
        ("\u200e0.1", "U+200E LEFT-TO-RIGHT MARK"),
        ("ad\u2060am", "U+2060 WORD JOINER"),
        ("ad\u3164am", "U+3164 HANGUL FILLER"),
        ("\u22120.1", "U+2212 MINUS SIGN"),
        ("1e\u22123", "U+2212 MINUS SIGN"),
        ("\u20130.1", "U+2013 EN DASH"),
        ("\uff10.1", "U+FF10 FULLWIDTH DIGIT ZERO"),
        ("0\uff0e1", "U+FF0E FULLWIDTH FULL STOP"),
        ("0.1;", "U+003B SEMICOLON"),
        ("'0.1", "U+0027 APOSTROPHE"),
        ("1\u202f000", "U+202F NARROW NO-BREAK SPACE"),
    ],
)
def test_a_value_that_is_not_what_it_shows_is_an_error_that_names_the_character(value: str, character: str) -> None:
    of_csv = only_error(f"region,s3_uri,hp.lr\n{MONDAY},{value}\n")
    assert (of_csv.line, of_csv.field, of_csv.value) == (2, "hp.lr", ascii(value))
    assert character in of_csv.reason
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        line = f'{{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a", "hyperparameters": {{"lr": {text}}}}}\n'
        assert only_error(line).reason == of_csv.reason


def test_an_invisible_character_in_a_name_in_json_is_an_error() -> None:
    line = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a", "hyperparameters": {"lr\\u200b": 1, " lr": 2}}\n'
    with pytest.raises(ManifestError) as caught:
        lines_of(line)
    assert [error.reason for error in caught.value.errors] == [
        "the name has U+200B ZERO WIDTH SPACE",
        "the name begins or ends with a blank",
    ]


@pytest.mark.parametrize(
    "value",
    [
        *(
            "0.1",
            "-0.1",
            "1e-3",
            "adam",
            "a;b",
            "it's",
            "'quoted'",
            "Zürich",
            "学習",
            "\u03b1 = 1",
            "\u2013",
            "a \u2013 b",
            "1;2",
            "\u0663",
        ),
        "\u2764\ufe0f",
    ],
)
def test_other_values_are_recorded_as_they_are(value: str) -> None:
    assert hyperparameters_of("hp.note", value) == {"note": value}


def test_another_field_names_its_invisible_character() -> None:
    error = only_error(f"region,s3_uri,mpi_options\n{MONDAY},-x\u200b A=1\n")
    assert (error.field, error.reason) == ("mpi_options", "has U+200B ZERO WIDTH SPACE, which cannot be seen")


def json_line(number: str) -> str:
    line = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a", "hyperparameters": {"x": NUMBER}}'
    return line.replace("NUMBER", number) + "\n"


@pytest.mark.parametrize(
    "number",
    [
        *("1e-400", "-1e-400", "9007199254740993.0", "0.12345678901234567890", "123456789.1234567891", "5e-325"),
        *("1e-99999999999999999999", "0." + "1" * 5000),
    ],
)
def test_a_number_in_json_that_would_change_is_an_error(number: str) -> None:
    error = only_error(json_line(number))
    assert error.reason.endswith("cannot be stored without a change")
    assert "in quotes" in error.next_step


@pytest.mark.parametrize(
    "number",
    [
        *("0.1", "1E5", "1e-3", "-0.0", "0e-400", "100000000000000000000.0", "9007199254740992.0", "0.10", "5e-324"),
        *("0.10000000000000001", "3.1415926535897931", "0.1000000000000000055511151231257827021181583404541015625"),
    ],
)
def test_a_number_in_json_in_any_form_that_programs_write_is_recorded(number: str) -> None:
    (line,) = lines_of(json_line(number))
    assert line.settings.hyperparameters == {"x": str(float(number))}


def test_a_long_number_in_quotes_is_recorded_as_it_is() -> None:
    (line,) = lines_of(json_line('"0.12345678901234567890"'))
    assert line.settings.hyperparameters == {"x": "0.12345678901234567890"}
