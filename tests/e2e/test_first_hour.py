"""The commands of docs/first-hour.md, executed literally in one shell, in a local AWS of a new account."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.packages import needs

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/first-hour.md"
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWS = re.compile(r"^The output must show((?:[^`.]|`[^`]*`)*)\.", re.MULTILINE)
"""The sentence that names the expected output, as code."""
MAX_SECONDS = 900


class Step(NamedTuple):
    """A step of the page: its title, its commands, and the texts that their output must contain."""

    title: str
    commands: str
    shows: list[str]


def steps() -> list[Step]:
    found = []
    for part in PAGE.read_text().split("\n## ")[1:]:
        fences = _FENCE.findall(part)
        commands = "".join(body for language, _, body in fences if language == "sh")
        shows = [" ".join(code.split()) for text in _SHOWS.findall(part) for code in re.findall(r"`([^`]*)`", text)]
        found.append(Step(part.partition("\n")[0], commands, shows))
    return found


def test_the_page_has_ten_steps_with_expected_output_and_remedies() -> None:
    parts = PAGE.read_text().split("\n## ")[1:]
    assert [int(part.partition(".")[0]) for part in parts] == list(range(1, 11))
    assert all("must show" in part and re.search(r"\bIf\b", part) for part in parts)
    assert all(step.shows and step.commands for step in steps())


@needs("awscli")
def test_the_page_can_be_followed_literally(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for each in ROOT.iterdir():  # link the checkout into a folder that receives the commands' files
        if each.name not in (".localcloud", "cdk.out", ".git"):
            (checkout / each.name).symlink_to(each)
    script = tmp_path / "first-hour.sh"
    # The tests already run in the environment that `make setup` creates; all other commands are unchanged.
    body = "".join(f"echo '## {step.title}'\n{step.commands}" for step in steps()).replace("make setup\n", "")
    script.write_text(f"set -eu\ntrap 'traingrid local down' EXIT\n{body}")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TRAINGRID"))}
    environment = {
        **own,
        "COLUMNS": "200",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", str(script)],
        cwd=checkout,
        env=environment | {"CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_DISABLE_VERSION_CHECK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    printed = dict(part.partition("\n")[::2] for part in done.stdout.split("\n## ")[0:])
    shown = {title.removeprefix("## "): text for title, text in printed.items()}
    missing = {step.title: [line for line in step.shows if line not in shown[step.title]] for step in steps()}
    assert not any(missing.values()), f"{missing}:\n{done.stdout[-12000:]}"
