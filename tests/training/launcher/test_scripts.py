"""Custom scripts, run by `train` on two ranks. Most of them do not use TensorFlow, and so take no seconds."""

import hashlib
import http.server
import importlib.util
import io
import json
import shutil
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from training_container.contract.launch_options import Script
from training_container.contract.toolkit import script_arguments
from training_container.contract.training_job import ContractError, Folders
from training_container.launcher import script_packages, scripts
from training_container.ranks.script_rank import shell_of

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]

RECORDS_ITSELF = """
import json, os, sys
import near
from trainer import ranks
rank = ranks.current().rank
with open(os.path.join(os.environ["SM_MODEL_DIR"], f"rank-{rank}.json"), "w") as file:
    json.dump({"argv": sys.argv[1:], "name": __name__, "cwd": os.getcwd(), "near": near.__file__,
               "data": os.environ["SM_CHANNEL_TRAIN"], "epochs": os.environ["SM_HP_EPOCHS"]}, file)
"""


def archive(path: Path, files: Mapping[str, str]) -> str:
    with tarfile.open(path, "w:gz") as packed:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            packed.addfile(entry, io.BytesIO(text.encode()))
    return str(path)


@pytest.fixture
def ran(host_folder: Write, start: Start, tmp_path: Path) -> Callable[..., tuple[int, str, Path]]:
    """A function that runs an archive's program on two ranks, and returns its exit status, output and folder."""

    def run(files: Mapping[str, str], program: str = "mine.py", **environment: str) -> tuple[int, str, Path]:
        packed = archive(tmp_path / "sourcedir.tar.gz", files)
        named = {"sagemaker_program": program, "sagemaker_submit_directory": packed}
        base = host_folder(tmp_path / "ml", named | {"epochs": "3", "b": "8", "nobody_knows": "x y"})
        (base / "model").mkdir()
        train = start(base, PIP_NO_INDEX="1", **environment)
        output, _ = train.communicate(timeout=120)
        return train.returncode, output, base

    return run


@pytest.mark.usefixtures("controller")
def test_every_rank_runs_the_script_with_the_hyperparameters(ran: Callable[..., tuple[int, str, Path]]) -> None:
    status, output, base = ran({"mine.py": RECORDS_ITSELF, "near.py": ""})
    assert status == 0, output
    for rank in (0, 1):
        record = json.loads((base / "model" / f"rank-{rank}.json").read_text())
        assert record["argv"] == ["-b", "8", "--epochs", "3", "--nobody_knows", "x y"]
        assert (record["name"], record["cwd"], record["epochs"]) == ("__main__", str(base / "code"), "3")
        assert record["near"] == str(base / "code" / "near.py")
        assert record["data"] == str(base / "input" / "data" / "train")
    assert not (base / "output" / "failure").exists()


@pytest.mark.usefixtures("controller")
def test_the_log_marks_the_lines_of_ranks_other_than_0(ran: Callable[..., tuple[int, str, Path]]) -> None:
    text = """
import sys, time
from trainer import ranks
rank = ranks.current().rank
for step in range(50):
    sys.stdout.write(f"loss of {rank} at {step}: ")
    sys.stdout.flush()
    time.sleep(0.001)
    print(f"{step / 2}", flush=True)
"""
    status, output, _ = ran({"mine.py": text})
    assert status == 0, output
    found = set(output.splitlines())
    assert found >= {f"loss of 0 at {step}: {step / 2}" for step in range(50)}
    assert found >= {f"[1,1]<stdout>:loss of 1 at {step}: {step / 2}" for step in range(50)}


@pytest.mark.usefixtures("controller")
def test_a_script_that_raises_fails_the_job_with_its_own_traceback(
    ran: Callable[..., tuple[int, str, Path]],
) -> None:
    text = (
        "def deep():\n    raise KeyError('no such pixel')\n\nfrom trainer import ranks\nif ranks.current().rank == 1:\n"
    )
    status, output, base = ran({"folder/mine.py": text + "    deep()\n"}, "folder/mine.py")
    assert status == 1, output
    sentence, first, second, *rest = (base / "output" / "failure").read_text().splitlines()
    assert sentence == "Rank 1 on algo-1 failed: KeyError: 'no such pixel'"
    assert first == "Traceback (most recent call last):"
    assert second == f'  File "{base}/code/folder/mine.py", line 6, in <module>'
    assert rest[-1] == "KeyError: 'no such pixel'"


@pytest.mark.parametrize(
    ("program", "text", "reason"),
    [
        ("mine.py", "import sys; sys.exit(3)", "mine.py ended with exit status 3"),
        ("mine.py", "import sys; sys.exit('no data')", "mine.py ended with sys.exit('no data')"),
        ("mine.sh", 'test "$4" = 3 && exit 4', "mine.sh ended with exit status 4"),
    ],
)
@pytest.mark.usefixtures("controller")
def test_an_exit_status_other_than_0_fails_the_job(
    ran: Callable[..., tuple[int, str, Path]], program: str, text: str, reason: str
) -> None:
    status, output, base = ran({program: text}, program)
    assert status == 1, output
    failure = (base / "output" / "failure").read_text()
    assert failure.startswith("Rank ")
    assert reason in failure.splitlines()[0]


ENDS_EARLY = """
import os, sys
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
hvd.allreduce(tf.constant([1.0]), name="first")
if hvd.rank() == 1:
    {}(0)
hvd.allreduce(tf.constant([1.0]), name="second")
"""


@pytest.mark.parametrize("end", ["os._exit", "sys.exit"])
def test_the_reason_names_the_rank_that_has_ended_before_the_others(
    ran: Callable[..., tuple[int, str, Path]], controller: str, end: str
) -> None:
    status, output, base = ran({"mine.py": ENDS_EARLY.format(end)})
    assert status == 1, output
    reason = (base / "output" / "failure").read_text()
    is_aborted = controller == "mpi" and end == "os._exit"
    expected = (
        "Rank 1 on algo-1 ended before the others," if is_aborted else "Rank 0 on algo-1 failed because rank 1 had"
    )
    assert reason.startswith(expected), output
    assert "Give each rank the same number of steps" in reason.splitlines()[0]


WITHOUT_DATA = """
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
for step in range(0 if hvd.rank() == 1 else 2):
    hvd.allreduce(tf.constant([1.0]), name=f"step-{step}")
"""


@pytest.mark.usefixtures("controller")
def test_a_rank_without_any_data_is_the_reason_and_the_others_do_not_wait(
    ran: Callable[..., tuple[int, str, Path]],
) -> None:
    status, output, base = ran({"mine.py": WITHOUT_DATA})
    assert status == 1, output
    reason = (base / "output" / "failure").read_text()
    assert "rank 1 had ended" in reason.splitlines()[0], output
    assert "Give each rank the same number of steps" in reason.splitlines()[0]


SHELL = """#!PROGRAM
set -o pipefail
words=(one two)
[[ ${#words[@]} == 2 ]] && printf '%s\\n' "$@" > "$SM_MODEL_DIR/arguments"
"""


@pytest.mark.parametrize("first", ["/bin/bash -e", "/usr/bin/env -S bash -e"])
def test_a_shell_script_runs_with_the_program_of_its_first_line(
    ran: Callable[..., tuple[int, str, Path]], first: str
) -> None:
    status, output, base = ran({"train.sh": SHELL.replace("PROGRAM", first)}, "train.sh")
    assert status == 0, output
    given = ["-b", "8", "--epochs", "3", "--nobody_knows", "x y"]
    assert (base / "model" / "arguments").read_text().splitlines() == given


def test_a_shell_that_the_image_lacks_is_named(ran: Callable[..., tuple[int, str, Path]]) -> None:
    status, _, base = ran({"train.sh": SHELL.replace("PROGRAM", "/bin/none")}, "train.sh")
    assert status == 1
    reason = (base / "output" / "failure").read_text()
    assert (
        "train.sh names /bin/none in its first line, which this image cannot run: No such file or directory." in reason
    )


@pytest.mark.parametrize(
    ("content", "shell"),
    [
        (b"#!/bin/bash\n", ["/bin/bash"]),
        (b"#! /usr/bin/env  -S bash -e \n", ["/usr/bin/env", "-S bash -e"]),
        (b"set -e\n#!/bin/bash\n", ["/bin/sh"]),
        (b"", ["/bin/sh"]),
        (b"#!\n", ["/bin/sh"]),
    ],
)
def test_a_script_without_a_program_in_its_first_line_runs_with_sh(
    tmp_path: Path, content: bytes, shell: list[str]
) -> None:
    (tmp_path / "train.sh").write_bytes(content)
    assert shell_of(tmp_path / "train.sh") == shell


def test_a_shell_script_with_line_ends_of_windows_is_refused_before_it_runs(tmp_path: Path) -> None:
    named = archive(tmp_path / "sourcedir.tar.gz", {"train.sh": "#!/bin/bash\r\necho trained\r\n"})
    script = Script(entry_point="train.sh", archive=named)
    with pytest.raises(ContractError, match=r"train.sh has the line ends of Windows \(CRLF\)"):
        scripts.prepare(script, Folders(base=tmp_path / "ml"))


@pytest.mark.parametrize("program", ["src/train.py", "src/train.sh"])
def test_a_program_in_a_subfolder_imports_from_the_top_of_its_archive(
    ran: Callable[..., tuple[int, str, Path]], program: str
) -> None:
    other = "cd / && python3 -c 'import src.near'"
    files = {
        "src/__init__.py": "",
        "src/near.py": "",
        "src/train.py": f"import subprocess, src.near\nsubprocess.run({other!r}, shell=True, check=True)\n",
        "src/train.sh": f"{other}\n",
    }
    status, output, _ = ran(files, program)
    assert status == 0, output


def test_a_script_may_end_by_sys_exit(ran: Callable[..., tuple[int, str, Path]]) -> None:
    status, output, _ = ran({"mine.py": "import sys\nsys.exit(0)"})
    assert status == 0, output


def test_available_requirements_are_installed_and_others_reported(
    ran: Callable[..., tuple[int, str, Path]],
) -> None:
    status, output, base = ran({"mine.py": "print('it ran')", "requirements.txt": "numpy\nno-such-thing-at-all==9\n"})
    assert status == 1
    failure = (base / "output" / "failure").read_text()
    assert "no-such-thing-at-all==9" in failure
    assert "it ran" not in output


def test_satisfied_requirements_let_the_script_run(ran: Callable[..., tuple[int, str, Path]]) -> None:
    status, output, _ = ran({"mine.py": "print('it ran')", "requirements.txt": "numpy\nhorovod\n"})
    assert status == 0, output
    assert output.count("it ran") == 2


def wheel(folder: Path, version: str, depends: str = "") -> Path:
    """Write a wheel of a package that exists in no index, with a module and a program. Return its path."""
    path, info = folder / f"only_mine-{version}-py3-none-any.whl", f"only_mine-{version}.dist-info"
    files = {
        "only_mine.py": f"VERSION = {version!r}\nline = 'program {version}\\n'\ndef main():\n    print(line, end='')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: only-mine\nVersion: {version}\n{depends}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nonly-mine = only_mine:main\n",
    }
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
        packed.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))
    return path


def test_requirements_are_installed_only_for_the_job(ran: Callable[..., tuple[int, str, Path]], tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, numpy, only_mine, horovod\n"
        "print(f'module {only_mine.VERSION}', flush=True)\n"  # one write: ranks share the output
        "subprocess.run(['only-mine'], check=True)\n"
        "subprocess.run([sys.executable, '-c', 'import only_mine; only_mine.main()'], check=True)\n"
    )
    for version in ("1.0", "2.0"):
        path = wheel(tmp_path, version, "Requires-Dist: numpy\n")
        status, output, base = ran({"mine.py": program, "requirements.txt": f"{path}\n"})
        assert status == 0, output
        assert output.count(f"module {version}") == 2
        assert output.count(f"program {version}") == 4
        assert not list(base.glob("packages/lib*/python*/site-packages/numpy*"))  # the image contains it
        shutil.rmtree(base)
    importlib.invalidate_caches()
    assert importlib.util.find_spec("only_mine") is None


SETUP = """
from setuptools import setup
setup(name="of-the-folder", version="1.2", package_dir={"": "src"}, py_modules=["of_the_folder"])
"""


PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "of-the-folder"
version = "1.2"
[tool.setuptools]
package-dir = {"" = "src"}
py-modules = ["of_the_folder"]
"""


@pytest.mark.parametrize(
    "files", [{"setup.py": SETUP}, {"setup.py": SETUP, "requirements.txt": ".\n"}, {"pyproject.toml": PYPROJECT}]
)
def test_the_package_that_a_folder_is_is_installed(
    ran: Callable[..., tuple[int, str, Path]], files: dict[str, str]
) -> None:
    program = "import importlib.metadata, of_the_folder\nprint('it has', importlib.metadata.version('of-the-folder'))"
    status, output, _ = ran({"mine.py": program, "src/of_the_folder.py": "", **files})
    assert status == 0, output
    assert output.count("it has 1.2") == 2


@pytest.mark.parametrize("content", ["[tool.ruff]\nline-length = 100\n", "[project]\nname = 'a'\n", "not = [toml"])
def test_a_pyproject_without_a_build_is_that_of_tools(tmp_path: Path, content: str) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    assert not script_packages.is_package(tmp_path)


def test_requirements_cannot_replace_the_libraries_of_horovod(tmp_path: Path) -> None:
    code = Folders(base=tmp_path).code
    code.mkdir()
    (code / "mine.py").touch()
    (code / "requirements.txt").write_text("numpy==1.0.0\n")
    with pytest.raises(ContractError, match=r"requirements.txt cannot be installed: .*numpy==1.0.0.*horovod"):
        scripts.prepare(Script(entry_point="mine.py"), Folders(base=tmp_path))


@pytest.mark.parametrize("name", ["../outside.py", "/outside.py"])
def test_nothing_is_unpacked_outside(tmp_path: Path, name: str) -> None:
    packed = archive(tmp_path / "a.tar.gz", {name: "", "mine.py": ""})
    folders = Folders(base=tmp_path / "ml")
    with pytest.raises(ContractError, match=r"cannot be unpacked: .*outside"):
        scripts.prepare(Script(entry_point="mine.py", archive=packed), folders)
    assert not (tmp_path / "ml" / "outside.py").exists()
    assert not folders.code.exists()


def test_a_link_that_leads_outside_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        entry = tarfile.TarInfo("mine.py")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(entry)
    with pytest.raises(ContractError, match=r"Program mine\.py does not exist"):
        scripts.prepare(Script(entry_point="mine.py", archive=str(path)), Folders(base=tmp_path / "ml"))


@pytest.fixture(params=["s3://data/sources", "/opt/ml/input/data/code"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Script]:
    """Store an archive under a name, in S3 or on the host, and return the script in it."""
    monkeypatch.setattr(scripts, "_fetch", lambda _uri, target: shutil.copyfile(tmp_path / "stored.tar.gz", target))

    def store(name: str, files: Mapping[str, str]) -> Script:
        archive(tmp_path / "stored.tar.gz", files)
        if name == "its hash":
            name = hashlib.sha256((tmp_path / "stored.tar.gz").read_bytes()).hexdigest() + ".tar.gz"
        here = Folders(base=tmp_path / "ml").here(f"{request.param}/{name}")
        if not request.param.startswith("s3:"):
            here.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tmp_path / "stored.tar.gz", here)
        return Script(entry_point="mine.py", archive=f"{request.param}/{name}")

    return store


def test_an_archive_that_replaced_the_submitted_one_does_not_run(stored: Callable[..., Script], tmp_path: Path) -> None:
    submitted = stored("its hash", {"mine.py": "print('mine')"})
    replaced = stored(submitted.archive.rpartition("/")[2], {"mine.py": "print('theirs')"})
    with pytest.raises(ContractError, match=r"was replaced after it was submitted: .* Submit the line again"):
        scripts.prepare(replaced, Folders(base=tmp_path / "ml"))
    assert not Folders(base=tmp_path / "ml").code.exists()


@pytest.mark.parametrize("name", ["its hash", "sourcedir.tar.gz", f"{'0' * 40}.tar.gz"])
def test_an_archive_with_its_own_hash_or_another_name_runs(
    stored: Callable[..., Script], tmp_path: Path, name: str
) -> None:
    scripts.prepare(stored(name, {"mine.py": "print('mine')"}), Folders(base=tmp_path / "ml"))
    assert (Folders(base=tmp_path / "ml").code / "mine.py").is_file()


def test_a_missing_program_is_reported_with_the_archives_content(tmp_path: Path) -> None:
    packed = archive(tmp_path / "a.tar.gz", {"train.py": "", "model.py": ""})
    with pytest.raises(
        ContractError, match=r"Program mine.py does not exist in .*a.tar.gz, which contains: model.py, train.py"
    ):
        scripts.prepare(Script(entry_point="mine.py", archive=packed), Folders(base=tmp_path / "ml"))


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no archive", "cannot be unpacked"), (b"\x1f\x8b\x08", "cannot be unpacked"), (None, "not exist")],
)
def test_an_invalid_archive_is_reported(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "a.tar.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ContractError, match=words):
        scripts.prepare(Script(entry_point="mine.py", archive=str(path)), Folders(base=tmp_path / "ml"))


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that an S3 endpoint serves: the file BUCKET/KEY is an object."""
    served = tmp_path / "s3"
    served.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(served))  # type: ignore[arg-type]  # the server passes them

        def log_message(self, *_arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    yield served
    server.shutdown()
    server.server_close()


def test_an_archive_is_downloaded_from_s3(s3: Path, tmp_path: Path) -> None:
    (s3 / "bucket" / "sources").mkdir(parents=True)
    archive(s3 / "bucket" / "sources" / "a.tar.gz", {"mine.py": "print(1)\n"})
    folders = Folders(base=tmp_path / "ml")
    script = Script(entry_point="mine.py", archive="s3://bucket/sources/a.tar.gz")
    scripts.prepare(script, folders)
    assert scripts.program(script, folders).read_text() == "print(1)\n"


def test_an_archive_in_a_channel_needs_no_network(tmp_path: Path) -> None:
    """SageMaker passes the path under /opt/ml, regardless of the base folder."""
    folders = Folders(base=tmp_path)
    (folders.data / "code").mkdir(parents=True)
    archive(folders.data / "code" / "0a1b.tar.gz", {"mine.py": "print('it ran')"})
    script = Script(entry_point="mine.py", archive="/opt/ml/input/data/code/0a1b.tar.gz")
    scripts.prepare(script, folders)
    assert (folders.code / "mine.py").read_text() == "print('it ran')"
    assert scripts.program(script, folders) == folders.code / "mine.py"


def test_an_archive_that_cannot_be_downloaded_is_reported(s3: Path, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"s3://bucket/a.tar.gz cannot be read: .*404.*execution role"):
        scripts.prepare(Script(entry_point="mine.py", archive="s3://bucket/a.tar.gz"), Folders(base=tmp_path / "ml"))


def test_arguments_are_those_of_awss_toolkit() -> None:
    assert script_arguments({"n": "1", "epochs": "2"}) == ["--epochs", "2", "-n", "1"]


def test_a_hyperparameter_without_a_value_is_a_flag() -> None:
    assert script_arguments({"no-cuda": "", "model": "ResNet50"}) == ["--model", "ResNet50", "--no-cuda"]
