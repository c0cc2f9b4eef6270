"""Comments: no line that could be a job is dropped as a comment, and comments of people stay comments."""

import pytest

from tests.support.manifest_errors import lines_of, only_error

MONDAY = "us-east-1,s3://ragab-ml/a/monday"
TUESDAY = "us-east-1,s3://ragab-ml/a/tuesday"


@pytest.mark.parametrize(
    "line",
    [
        f"#1 baseline,{MONDAY}",
        f'"#1 baseline",{MONDAY}',
        f"# 1 baseline , {MONDAY}",
        f'  "#1 baseline",{MONDAY},,',
        '"#1","us-east-1","s3://ragab-ml/a/monday"',
        f"#1, baseline,{MONDAY}",
        "#1,us-east-1,",
        "#1,us-esat-1,ragab-ml/a/monday",
        '"#1 "baseline",us-east-1,s3://ragab-ml/a/monday',
    ],
)
def test_a_comment_with_the_cells_of_a_job_is_an_error(line: str) -> None:
    error = only_error(f"name,region,s3_uri\nfirst,{TUESDAY}\n{line}\n")
    assert (error.line, error.reason) == (3, "the line begins with #, and has the cells of a job")
    assert error.next_step.startswith("Move the column region to the first place")


@pytest.mark.parametrize(
    "header", ["hp.color,name,region,s3_uri", "tag.ticket,hp.a,region,s3_uri", "env.A,hp.a,region,s3_uri"]
)
def test_any_first_column_may_begin_with_a_number_sign(header: str) -> None:
    assert only_error(f"{header}\n#7,x,{MONDAY}\n").line == 2


def test_a_job_whose_name_begins_with_a_number_sign_has_its_region_first() -> None:
    (line,) = lines_of(f"region,s3_uri,name\n{MONDAY},#1 baseline\n")
    assert line.name == "#1 baseline"


@pytest.mark.parametrize("header", ["", "region,s3_uri\n", "s3_uri,region\n"])
def test_a_line_after_a_number_sign_is_a_comment_where_no_job_begins_with_one(header: str) -> None:
    first = "s3://ragab-ml/a/monday,us-east-1" if header.startswith("s3") else MONDAY
    for comment in (f"#{first}", f"# {first}", f"## {first}", f'"#{first}"'):
        (line,) = lines_of(f"{header}{first}\n{comment}\n")
        assert line.name == "monday"


@pytest.mark.parametrize("header", ["", "region,s3_uri\n"])
def test_a_damaged_first_cell_is_an_error_where_the_region_is_first(header: str) -> None:
    error = only_error(f"{header}{TUESDAY}\n#1 baseline,s3://ragab-ml/a/monday\n")
    assert error.reason == "the line begins with #, and has the cells of a job"


@pytest.mark.parametrize(
    "comment",
    [
        "# the jobs of Monday, and of Tuesday",
        "# name, region: see the wiki",
        '"# the jobs of Monday, and of Tuesday"',
        "# data: s3://ragab-ml/a/monday",
        "#,,,,",
        "# Monday,,",
        "############",
        "#### Monday ####",
        "#",
        '# say "hello"',
    ],
)
def test_comments_of_people_stay_comments(comment: str) -> None:
    for header, line in (("", MONDAY), ("region,s3_uri\n", MONDAY), ("name,region,s3_uri\n", f"x,{MONDAY}")):
        assert len(lines_of(f"{comment}\n{header}{line}\n{comment}\n")) == 1


@pytest.mark.parametrize("comment", ['# {"region": "us-east-1", "s3_uri": "s3://ragab-ml/b"}', "# us-east-1, s3://b/c"])
def test_no_comment_beside_json_is_a_job(comment: str) -> None:
    line = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a"}'
    assert len(lines_of(f"{comment}\n{line}\n{comment}\n")) == 1


# Error values of Excel and Google Sheets in nine languages.
ERROR_VALUES = [
    *(
        "#NV",
        "#WERT!",
        "#BEZUG!",
        "#ZAHL!",
        "#¡REF!",
        "#¿NOMBRE?",
        "#VALEUR!",
        "#N/B",
        "#I/T",
        "#\u041d/\u0414",
        "#YOK",
    ),
    *("########", "###", "#LOADING...", "#Loading...", "#GETTING_DATA", "#BLOCKED!", "#FIELD!", "#BUSY!", "#CONNECT!"),
    *("#UNKNOWN!", "#DĚLENÍ_NULOU!", "#N/D!", "#DIV/0!"),
]


@pytest.mark.parametrize("value", ERROR_VALUES)
def test_an_error_value_in_any_language_is_no_comment_and_no_value(value: str) -> None:
    for line in (f"{value},{MONDAY},3", f"x,{MONDAY},{value}", f'"{value}",{MONDAY},3', f" {value} ,{MONDAY},3"):
        error = only_error(f"name,region,s3_uri,hp.epochs\nfirst,{MONDAY},90\n{line}\n")
        assert error.line == 3
        assert error.reason == f"the cell {value} is an error of the spreadsheet"


@pytest.mark.parametrize("value", ["Err:502", "Err :504", "Err\u202f:508"])
def test_a_numbered_error_of_libreoffice_is_no_value(value: str) -> None:
    error = only_error(f"region,s3_uri,hp.epochs\n{MONDAY},{value}\n")
    assert error.reason == f"the cell {value} is an error of the spreadsheet"


@pytest.mark.parametrize("value", ["#ff8800", "#1", "#main", "#go!", "#", "C#", "epoch:502", "loss: 501", "Errors:502"])
def test_other_values_with_a_number_sign_or_a_colon_are_values(value: str) -> None:
    (line,) = lines_of(f"region,s3_uri,hp.note\n{MONDAY},{value}\n")
    assert line.settings.hyperparameters == {"note": value}
