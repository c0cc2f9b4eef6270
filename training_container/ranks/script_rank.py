"""Script rank: the program that mpirun or Gloo starts in every process slot to run a custom script.

A Python script runs in this process, as with `python train.py --name value ...` in its own folder. A .sh file runs in a
child process, with the program of its first line. In both, Python also finds modules in the folder of the archive.
Errors are reported like the trainer's own, with their traceback.
"""

import os
import runpy
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from training_container.contract.rank_variables import MARK_OUTPUT
from training_container.contract.stopping import is_stopping
from training_container.contract.toolkit import sagemaker_variables, script_arguments
from training_container.contract.training_job import Folders, read_training_job
from training_container.launcher import script_packages, scripts
from training_container.launcher.exit_description import exit_phrase, likely_cause
from training_container.ranks import leftovers, rank_process
from training_container.ranks.marked_output import MarkedOutput
from training_container.ranks.script_end import end_stopped, report_and_end
from training_container.trainer.checkpoints import background


class ScriptError(RuntimeError):
    """A script ended with an exit status other than 0."""


def main() -> None:
    """Run the script of this rank."""
    marks_output = MARK_OUTPUT in os.environ
    leftovers.keep(MarkedOutput(rank_process.rank_number(), os.environ["SM_CURRENT_HOST"]) if marks_output else None)
    rank_process.begin(report_and_end)
    job = read_training_job(Folders.from_environment(os.environ), sys.argv[1:])
    if job.launch.launcher != "mpi":
        rank_process.check_position(job)
    assert job.launch.script is not None  # noqa: S101  # for the type checker: `train` starts this only for scripts
    os.environ.update(sagemaker_variables(job))
    script_packages.use(job.folders.base)
    program = scripts.program(job.launch.script, job.folders)
    folder = scripts.folder(job.launch.script, job.folders)
    os.chdir(folder)
    find_modules(folder)
    if program.suffix == ".sh":
        run_shell(program, script_arguments(job.hyperparameters))
    else:
        run_python(program, script_arguments(job.hyperparameters))


def find_modules(folder: Path) -> None:
    """Let this process, and all programs that it starts, import modules of a folder.

    AWS's toolkit does the same, so that src/train.py can import src.model (sagemaker_training/entry_point.py in
    https://github.com/aws/sagemaker-training-toolkit).
    """
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))


def run_python(program: Path, arguments: list[str]) -> None:
    """Run a Python script in this process. If it raises an exception, report it and end the process.

    Args:
        program: The script's path. Its folder is first on sys.path, as in Python itself.
        arguments: The script's command-line arguments.
    """
    sys.argv = [str(program), *arguments]
    if sys.path[0] != str(program.parent):
        sys.path.insert(0, str(program.parent))
    try:
        _run_to_the_last_checkpoint(program)
    except SystemExit as ended:
        if is_stopping():
            end_stopped()
        elif ended.code not in (None, 0):
            report_and_end(ScriptError, _end_error(program, ended.code), None)
        raise
    except Exception as error:  # noqa: BLE001  # any exception of a script is reported, from the script's first line
        own_trace = _own_lines(error.__traceback__, program.parent)
        sys.excepthook(type(error), error, own_trace)  # a logger of the script may have wrapped it
        report_and_end(type(error), error, own_trace)
    if is_stopping():
        end_stopped()


def _run_to_the_last_checkpoint(program: Path) -> None:
    """Run a script, and wait for its last checkpoint, whose error fails the job."""
    try:
        runpy.run_path(str(program), run_name="__main__")
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code not in (None, 0):
            with suppress(Exception):  # it is printed, and must not hide the script's own error
                background.finish()
            raise
    background.finish()


def run_shell(program: Path, arguments: list[str]) -> None:
    """Run a shell script. If its exit status is not 0, report a failure and end the process."""
    shell = shell_of(program)
    try:
        with subprocess.Popen([*shell, str(program), *arguments], process_group=0) as process:
            for passed_on in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # also to its programs, as a terminal does
                signal.signal(passed_on, lambda number, _frame: os.killpg(process.pid, number))
            status = process.wait()
            while is_stopping() and _has_processes(process.pid):  # a shell without a trap ends before its programs
                time.sleep(0.1)
    except OSError as error:
        problem = f"{program.name} names {shell[0]} in its first line, which this image cannot run: {error.strerror}."
    else:
        if not status or is_stopping():
            return
        problem = f"{program.name} {exit_phrase(status)}.{likely_cause(status)}"
    report_and_end(ScriptError, ScriptError(problem), None)


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def shell_of(program: Path) -> list[str]:
    """Return the program that a script names in its first line, with its argument; /bin/sh if it names none.

    AWS's toolkit runs `/bin/sh -c ./train.sh`, so that Linux reads this line (sagemaker_training/process.py in
    https://github.com/aws/sagemaker-training-toolkit). Linux passes everything after the program as one argument
    (`execve`(2)). Here the file need not be executable, which it cannot become in a channel that is read-only.
    """
    with program.open("rb") as file:
        first = os.fsdecode(file.readline()).rstrip()
    named = first.removeprefix("#!").split(maxsplit=1) if first.startswith("#!") else []
    return named or ["/bin/sh"]


def _end_error(program: Path, code: object) -> ScriptError:
    ending = f"exit status {code}" if isinstance(code, int) else f"sys.exit({code!r})"
    return ScriptError(f"{program.name} ended with {ending}.")


def _own_lines(trace: TracebackType | None, folder: Path) -> TracebackType | None:
    """Return a traceback without the lines before the script's own first line, which start the script."""
    own_trace = trace
    while own_trace and not own_trace.tb_frame.f_code.co_filename.startswith(str(folder)):
        own_trace = own_trace.tb_next
    return own_trace or trace


if __name__ == "__main__":
    main()
