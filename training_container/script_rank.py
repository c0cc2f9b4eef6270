"""One rank of a script of the user's: the program that mpirun or Gloo starts in every process slot.

The script runs in this process, as `python train.py --name value ...` would run it in its own folder; a .sh file runs
below it. An error in it is reported as the trainer's own are, with its traceback.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from training_container import leftovers, rank_process, script_packages, scripts
from training_container.contract import Folders, read_training_job
from training_container.exit_status import in_words, likely_cause
from training_container.toolkit import sagemaker_variables, script_arguments


class ScriptError(RuntimeError):
    """A script ended with an exit status other than 0."""


def main() -> None:
    """Run the script of this rank."""
    leftovers.keep()
    rank_process.begin()
    job = read_training_job(Folders.from_environment(os.environ), sys.argv[1:])
    assert job.launch.script is not None  # noqa: S101  # for the type checker: `train` starts this for scripts alone
    os.environ.update(sagemaker_variables(job))
    script_packages.use(job.folders.base)
    program = scripts.program(job.launch.script, job.folders)
    os.chdir(scripts.folder(job.launch.script, job.folders))
    if program.suffix == ".sh":
        run_shell(program, script_arguments(job.hyperparameters))
    else:
        run_python(program, script_arguments(job.hyperparameters))


def run_python(program: Path, arguments: list[str]) -> None:
    """Run a Python script in this process; one that raises ends the process with a report.

    Args:
        program: its path. Its own folder comes first where modules are looked for, as Python has it.
        arguments: its command line.
    """
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.parent))
    try:
        runpy.run_path(str(program), run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            rank_process.report_and_end(ScriptError, _ended(program, ended.code), None)
        raise
    except Exception as error:  # noqa: BLE001  # whatever a user's script raises is reported, from its own lines on
        rank_process.report_and_end(type(error), error, _own_lines(error.__traceback__, program.parent))


def run_shell(program: Path, arguments: list[str]) -> None:
    """Run a shell script, and end with a report if it does not end with exit status 0."""
    status = subprocess.run(["/bin/sh", str(program), *arguments], check=False).returncode
    if status:
        ended = ScriptError(f"{program.name} {in_words(status)}.{likely_cause(status)}")
        rank_process.report_and_end(ScriptError, ended, None)


def _ended(program: Path, code: object) -> ScriptError:
    what = f"exit status {code}" if isinstance(code, int) else f"sys.exit({code!r})"
    return ScriptError(f"{program.name} ended with {what}.")


def _own_lines(trace: TracebackType | None, folder: Path) -> TracebackType | None:
    """Return a traceback from the script's own first line on; how it was started explains nothing."""
    found = trace
    while found and not found.tb_frame.f_code.co_filename.startswith(str(folder)):
        found = found.tb_next
    return found or trace


if __name__ == "__main__":
    main()
