"""The command `localcloud` without a running server: each error is a sentence with the next step, and exit code 1."""

from pathlib import Path

import pytest

from localcloud.command import main


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["env"], 'Start one: eval "$(localcloud up)"'),
        (["grant"], 'Start one: eval "$(localcloud up)"'),
        (["grant", "fargate", "L-3032A538"], "Write SERVICE, QUOTA and VALUE together"),
        (["push", "hello:1", "--", "no-such-program"], "There is no program no-such-program on PATH"),
    ],
)
def test_an_error_names_the_next_step(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 1
    assert text in capsys.readouterr().err


def test_status_and_down_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (main(["status"]), main(["down"])) == (1, 0)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("stopped\n", "nothing was running\n")
    assert list(tmp_path.iterdir()) == []
