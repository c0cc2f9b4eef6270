"""Rows: the tables, JSON and CSV of commands are, byte for byte, those of the files in printed_rows/."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from tests.support.module_time import replace_time
from tests.unit.cli.command_samples import NOW, Sample
from tests.unit.cli.grid_samples import GRID_SAMPLES
from tests.unit.cli.job_samples import JOB_SAMPLES
from traingrid.cli import main

SAMPLES = JOB_SAMPLES | GRID_SAMPLES
PRINTED = Path(__file__).parent / "printed_rows"
NARROW = {"FORCE_COLOR": "1", "TERM": "dumb"}  # a terminal of 80 columns without styles
OPTIONS: tuple[list[str], ...] = ([], ["--output", "json"], ["--output", "csv"])


def printed(*words: str, **environment: str) -> str:
    result = CliRunner(env=environment).invoke(main.cli, list(words), input="n\n")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    title = " ".join(["traingrid", *words, *(f"{name}={value}" for name, value in environment.items())])
    return f"$ {title}\n{result.stdout}"


def rows_of(sample: Sample, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Return the output of a command in all formats."""
    replace_data, words = sample
    monkeypatch.chdir(folder)
    (folder / "x.csv").touch()
    for module in ("status_table", "overview_table", "sweep_table", "compare"):
        replace_time(monkeypatch, f"traingrid.cli.{module}", time=NOW.timestamp)
    replace_time(monkeypatch, "traingrid.api.rounds_timeline", time=NOW.timestamp)
    replace_data(monkeypatch.setattr)
    return printed(*words, **NARROW) + "".join(printed(*words, *options) for options in OPTIONS)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_rows_of_a_command_are_printed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = (PRINTED / f"{name}.txt").read_text()
    message = "for a new column, run `.venv/bin/python -m tests.unit.cli.test_printed_rows`"
    assert rows_of(SAMPLES[name], monkeypatch, tmp_path) == expected, message


if __name__ == "__main__":
    for name, sample in SAMPLES.items():
        with pytest.MonkeyPatch.context() as monkeypatch, TemporaryDirectory() as folder:
            (PRINTED / f"{name}.txt").write_text(rows_of(sample, monkeypatch, Path(folder)))
