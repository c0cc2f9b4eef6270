"""containers/build.sh, with fakes of podman and buildah that record their arguments."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.python_programs import write_program

ROOT = Path(__file__).parents[3]
NOTES_ARGUMENTS = """\
import json, sys
from pathlib import Path
given = sys.argv[1:]
Path({noted!r}).write_text(json.dumps(given))
Path(given[given.index("--iidfile") + 1]).write_text("an-id")
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that precede the machine's own. `id` reports root, because only root builds images."""
    folder = tmp_path / "programs"
    folder.mkdir()
    bodies = dict.fromkeys(("podman", "runc", "debootstrap"), "#!/bin/sh\n") | {"id": "#!/bin/sh\necho 0\n"}
    for name, body in bodies.items():
        (folder / name).write_text(body)
        (folder / name).chmod(0o755)
    write_program(folder / "buildah", NOTES_ARGUMENTS.format(noted=str(tmp_path / "noted.json")))
    return folder


@pytest.mark.parametrize("target", ["orchestrator", "cpu"])
def test_a_cache_folder_with_a_blank_is_passed_to_buildah_unsplit(tmp_path: Path, programs: Path, target: str) -> None:
    cache, certificates = tmp_path / "my cache", tmp_path / "certificates.pem"
    certificates.write_text("")
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "XDG_CACHE_HOME": str(cache),
        "PIP_CERT": str(certificates),
        "BASE": "base",
    }
    script = [str(ROOT / "containers/build.sh"), target, "--build-arg", "EFA=1.50.0"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "an-id"), done.stderr
    given = json.loads((tmp_path / "noted.json").read_text())
    secrets = [word for before, word in itertools.pairwise(given) if before == "--secret"]
    assert len(secrets) == 4
    assert all(f",src={cache}/traingrid/containers/tmp/build." in secret for secret in secrets)
    assert given[-1] == f"{ROOT}/containers/.."
    assert "EFA=1.50.0" in given


@pytest.mark.parametrize(("target", "efa"), [("gpu", ["EFA=none"]), ("torch", ["EFA=none"]), ("cpu", [])])
def test_efa_is_off_unless_the_caller_sets_it(tmp_path: Path, programs: Path, target: str, efa: list[str]) -> None:
    def arguments(*options: str) -> list[str]:
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHON": sys.executable}
        environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "BASE": "base"}
        script = [str(ROOT / "containers/build.sh"), target, *options]
        subprocess.run(script, env=environment, check=True, capture_output=True)
        given = json.loads((tmp_path / "noted.json").read_text())
        words = [word for before, word in itertools.pairwise(given) if before == "--build-arg"]
        return [word for word in words if word.startswith("EFA=")]

    assert arguments() == efa
    assert arguments("--build-arg", "EFA=1.50.0") == [*efa, "EFA=1.50.0"], "buildah uses the last one"
