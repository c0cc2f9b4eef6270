"""Spreadsheets: manifests as spreadsheets and pandas save them are read as meant, or rejected with the cause."""

import pytest

from tests.support.manifest_errors import lines_of, only_error
from traingrid.api.manifest_edit import readable_rows, with_value
from traingrid.manifest.fields import LineSettings
from traingrid.submission.manifest_text import header_of

MONDAY = "us-east-1,s3://ragab-ml/a/monday"
TUESDAY = "us-east-1,s3://ragab-ml/a/tuesday"


@pytest.mark.parametrize(
    "padded",
    [
        f"region,s3_uri,hp.epochs,,\r\n{MONDAY},90,,\r\n{TUESDAY},30,,\r\n,,,,\r\n,,,,\r\n",
        f"region,s3_uri,hp.epochs,\r\n{MONDAY},90,\r\n{TUESDAY},30,\r\n",
        f",,\r\nregion,s3_uri,hp.epochs\r\n{MONDAY},90\r\n,,\r\n{TUESDAY},30\r\n,,\r\n",
        f'region,s3_uri,hp.epochs\n{MONDAY},90\n"","",""\n\xa0,\xa0,\n{TUESDAY},30,,\n',
        f"region,,s3_uri,hp.epochs\n{MONDAY.replace(',', ',,')},90\n{TUESDAY.replace(',', ',,')},30\n",
        f"region,s3_uri,hp.epochs{',' * 600}\n{MONDAY},90\n{TUESDAY},30{',' * 600}\n",
    ],
    ids=["columns and rows", "one column", "rows", "quoted and no-break blanks", "an empty column", "600 columns"],
)
def test_empty_columns_and_rows_change_nothing(padded: str) -> None:
    plain = lines_of(f"region,s3_uri,hp.epochs\n{MONDAY},90\n{TUESDAY},30\n")
    read = lines_of(padded)
    assert [(line.region, line.data, line.settings) for line in read] == [
        (line.region, line.data, line.settings) for line in plain
    ]


def test_padding_without_a_header_changes_nothing() -> None:
    read = lines_of(f"{MONDAY},,\r\n{TUESDAY},second try,,\r\n,,,\r\n,\r\n")
    assert [line.name for line in read] == ["monday", "second try"]


def test_padding_alone_is_a_file_without_jobs() -> None:
    assert only_error(",,\r\n,,\r\n").reason == "the file has no jobs"


def test_an_index_column_without_a_name_is_one_error_with_its_first_value() -> None:
    error = only_error(f",region,s3_uri\n0,{MONDAY}\n1,{TUESDAY}\n")
    assert error.line == 1
    assert error.reason == "column 1 has no name, and line 2 has '0' in it"
    assert "to_csv(index=False)" in error.next_step


def test_an_index_column_that_pandas_has_read_back_is_named() -> None:
    assert "to_csv(index=False)" in only_error(f"Unnamed: 0,region,s3_uri\n0,{MONDAY}\n").next_step


@pytest.mark.parametrize(
    ("column", "known"),
    [("HP.epochs", "hp.epochs"), ("Hp.Epochs", "hp.Epochs"), ("ENV. A", "env.A"), ("Input.train", "input.train")],
)
def test_a_column_of_a_mapping_in_another_case_is_named_as_it_must_be(column: str, known: str) -> None:
    assert only_error(f"region,s3_uri,{column}\n{MONDAY},1\n").next_step == f"Did you mean {known}?"


def test_a_value_beyond_the_named_columns_is_an_error() -> None:
    assert only_error(f"region,s3_uri,,\n{MONDAY},,3\n").reason == "the line has 4 cells, and the header has 2"


@pytest.mark.parametrize(
    ("first", "others", "name"),
    [
        ("region;s3_uri;hp.learning_rate", "us-east-1;s3://ragab-ml/a;0,05", "semicolons"),
        ("region\ts3_uri\tname", "us-east-1\ts3://ragab-ml/a\tmonday", "tabs"),
        ("us-east-1;s3://ragab-ml/a", "us-east-1;s3://ragab-ml/b", "semicolons"),
        ("us-east-1\ts3://ragab-ml/a", "us-east-1\ts3://ragab-ml/b", "tabs"),
        ("region | s3_uri", "us-east-1 | s3://ragab-ml/b", "vertical bars"),
        ('"region";"s3_uri"', '"us-east-1";"s3://ragab-ml/b"', "semicolons"),
    ],
)
def test_another_separator_is_named_once(first: str, others: str, name: str) -> None:
    error = only_error(f"{first}\n{others}\n{others}\n")
    assert error.line == 1
    assert error.reason == f"the cells are separated by {name}, and those of a manifest by commas"


def test_a_line_of_a_spreadsheets_settings_is_named() -> None:
    error = only_error(f"sep=,\n{MONDAY}\n")
    assert (error.line, error.next_step) == (1, "Remove the line; commas separate the cells.")


@pytest.mark.parametrize("cell", ["#REF!", "#N/A", "#DIV/0!", "#VALUE!", "#NAME?"])
def test_an_error_value_of_a_spreadsheet_is_no_comment_and_no_value(cell: str) -> None:
    for line in (f"{cell},s3://ragab-ml/a,3", f"{MONDAY},{cell}", f'"{cell}",s3://ragab-ml/a,3'):
        error = only_error(f"region,s3_uri,hp.epochs\n{MONDAY},90\n{line}\n")
        assert error.line == 3
        assert error.reason == f"the cell {cell} is an error of the spreadsheet"


@pytest.mark.parametrize("comment", ["# jobs: 2,,", '"# jobs: 2"', '"# jobs: 2",,', "# jobs: 2;;", "#\xa0jobs:\xa02"])
def test_a_declaration_that_a_spreadsheet_has_saved_counts(comment: str) -> None:
    assert only_error(f"{comment}\n{MONDAY}\n").reason == "the file declares 2 jobs and has 1"
    assert len(lines_of(f"{comment}\n{MONDAY}\n{TUESDAY}\n")) == 2


@pytest.mark.parametrize(
    "comment",
    [
        *("# jobs 2", "# jobs = 2", "# Jobs: 2", "## jobs: 2", "# job: 2", "# jobs: two", "# jobs: 2 (monday)"),
        *("# jobs: 1,000", "# jobs: 2.0", "# jobs:", "# number of jobs: 2", "# jobs: \uff12", "# jobs\uff1a 2"),
        *(
            "# total jobs: 2",
            "# Total number of jobs: 2",
            "#,jobs: 2",
            "# jobs,2",
            "#,jobs,2,,",
            "# 2 jobs",
            "# 2 jobs in total",
        ),
        *(
            "#\u200b jobs: 2",
            "# jobs\uff1a2 in total",
            "# Number of lines: 2",
            "# lines: 2",
            "# rows = 2",
            "# jobs - 2",
            "# 1 job",
        ),
        *(
            "# jobs (total): 2",
            "# no. of jobs: 2",
            "# the total of jobs is 2",
            "# jobs; 2",
            '"# jobs","2"',
            "# jobs in total: 2",
        ),
    ],
)
def test_a_declaration_that_is_almost_right_is_an_error_with_the_right_spelling(comment: str) -> None:
    error = only_error(f"{MONDAY}\n{comment}\n{TUESDAY}\n")
    assert (error.line, error.field) == (2, "line")
    assert error.reason == "the comment looks like the number of jobs, and is not read as one"
    assert "# jobs: 4" in error.next_step


@pytest.mark.parametrize(
    "comment",
    [
        "# jobs of monday",
        "# job 3",
        "# 2 jobs of monday",
        "# the jobs: monday",
        "# lines 3 and 4 are repeated",
        "# total jobs of monday, 2 of them large",
        "# jobs, 2 of them large",
        "# 2 lines, 3 jobs",
        "# number of hosts: 2",
        "#",
        "# jobs, see wiki",
        "# job: bert",
        "# region, data",
    ],
)
def test_other_comments_are_no_declarations(comment: str) -> None:
    assert len(lines_of(f"{comment}\n{MONDAY}\n")) == 1


def test_two_declarations_with_different_numbers_are_an_error() -> None:
    error = only_error(f"# jobs: 2\n{MONDAY}\n{TUESDAY}\n# jobs: 3\n")
    assert error.line == 4
    assert error.reason == "the comment declares 3 jobs, and an earlier one declares 2"
    assert len(lines_of(f"# jobs: 2\n{MONDAY}\n{TUESDAY}\n#jobs:2\n")) == 2


def test_a_header_in_a_comment_is_an_error_if_the_columns_would_be_read_differently() -> None:
    error = only_error(f"# region,s3_uri,hp.epochs\n{MONDAY},90\n")
    assert (error.line, error.reason) == (1, "the names of the columns are in a comment, so they are not read")
    assert [line.name for line in lines_of(f"# region,s3_uri,name\n{MONDAY},90\n")] == ["90"]
    assert len(lines_of(f"# region,s3_uri,hp.epochs\nregion,s3_uri\n{MONDAY}\n")) == 1


def test_whole_numbers_may_be_floats_as_pandas_writes_them() -> None:
    (line,) = lines_of(f"region,s3_uri,instance_count,volume_gb\n{MONDAY},2.0,50.00\n")
    assert (line.settings.instance_count, line.settings.volume_gb) == (2, 50)
    assert type(line.settings.instance_count) is int
    (line,) = lines_of('{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a", "instance_count": 2.0}\n')
    assert line.settings.instance_count == 2


@pytest.mark.parametrize("cell", ["2.5", '"2,0"', '"1,000"', "1E+05", "2.", "1_000", "1\u202f000", "-2.0", "\uff12"])
def test_other_forms_of_numbers_are_refused(cell: str) -> None:
    error = only_error(f"region,s3_uri,instance_count\n{MONDAY},{cell}\n")
    assert (error.field, error.reason) == ("instance_count", "must be a whole number")
    assert "digits" in error.next_step


def test_a_float_too_large_to_be_exact_is_refused() -> None:
    lines = (
        '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a", "input_mode": "Pipe", "shuffle_seed": 9007199254740994.0}'
    )
    assert only_error(lines).reason == "must be a whole number"


def test_edits_and_copies_of_a_padded_manifest_use_its_header() -> None:
    content = f'"# the jobs",,\n,,\nregion,s3_uri,init_from,\n{MONDAY},0123abcd/0,\n'.encode()
    (row,) = readable_rows(content)
    edited = with_value(content.splitlines(keepends=True), row, "init_from", "89abcdef/1")
    assert edited == f"{MONDAY},89abcdef/1,\n".encode()
    assert header_of(content) == "region,s3_uri,init_from,"


def test_null_is_an_empty_cell_in_fields_and_in_mappings() -> None:
    """pandas writes null for each cell without a value, and an empty cell into CSV."""
    nulls = '"instance_count": null, "hyperparameters": {"epochs": 90, "rate": null}, "tags": {"team": null}'
    (line,) = lines_of(f'{{"region": "us-east-1", "s3_uri": "s3://ragab-ml/a/monday", {nulls}}}\n')
    (cells,) = lines_of(f"region,s3_uri,instance_count,hp.epochs,hp.rate,tag.team\n{MONDAY},,90,,\n")
    assert line.settings == cells.settings == LineSettings(hyperparameters={"epochs": "90"})
