"""Trainer scripts: converts a ModelTrainer's SourceCode into the `source` and `entry_point` of a line.

A training image of the grid and AWS's own images run a Python program or a shell script (`entry_point`). ModelTrainer
also runs commands; for those, a small Python program is packed that runs the command with bash, as ModelTrainer's own
container script does (train/templates.py of the SDK).
"""

import shlex
from pathlib import Path
from typing import Any

from traingrid.api.script_folder import ScriptFolder
from traingrid.api.trainer_attributes import attributes
from traingrid.errors import UsageError
from traingrid.text import shown

RUNNER = "traingrid_command.py"
"""The name of the packed program that runs a command."""
_PROGRAM = '''\
"""Runs the command of a ModelTrainer, in the folder of this file. tg.from_model_trainer has written this program."""

import os
import signal
import subprocess
import sys

command = subprocess.Popen({arguments}, cwd=os.path.dirname(os.path.abspath(__file__)))
signal.signal(signal.SIGTERM, lambda number, _: command.send_signal(number))
status = command.wait()
sys.exit(status if status >= 0 else 128 - status)  # a shell's exit status of a command that a signal ended
'''
_REQUIREMENTS = "requirements.txt"
_BY_HAND = "Write the line by hand (docs/manifest-fields.md), or use a folder."


def script_fields(source_code: object, path: str) -> dict[str, Any]:
    """Return the fields `source` and `entry_point` of a SourceCode object.

    Args:
        source_code: The object; it is not None.
        path: The attribute of the trainer that has it, for errors.

    Raises:
        UsageError: The source code cannot be converted.
    """
    source_attributes = attributes(source_code, path)
    folder = source_attributes.get("source_dir")
    if not folder:
        raise UsageError(f"{path}.source_dir is not set.", "Put the program into a folder, and set it.")
    if not source_attributes.get("command") and not source_attributes.get("entry_script"):
        raise UsageError(f"{path} has neither an entry_script nor a command.", "Set one of them.")
    if source_attributes.get("args") and not source_attributes.get("command"):
        raise UsageError(f"{path}.args are used with a command only.", "Set hyperparameters, or a command.")
    if "://" in folder:
        return _archive_in_s3(folder, source_attributes, path)
    source_folder = Path(folder).resolve()
    if not source_folder.is_dir():
        raise UsageError(f"{path}.source_dir {shown(folder)} is not a folder.", "Unpack it, and give the folder.")
    entry_point, added_files = _program(source_attributes)
    script = source_folder / str(source_attributes.get("entry_script") or "")
    if not source_attributes.get("command") and not script.is_file():
        raise UsageError(f"{path}.entry_script {script} does not exist.", "Give its path in source_dir.")
    source = _script_folder(source_folder, source_attributes, added_files, path)
    return {"source": source, "entry_point": entry_point}


def _archive_in_s3(uri: str, source_attributes: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the fields for an archive in S3, which is used unchanged."""
    script = str(source_attributes.get("entry_script") or "")
    if not uri.endswith(".tar.gz"):
        raise UsageError(f"{path}.source_dir {shown(uri)} is not a .tar.gz.", "Give a local folder, or a .tar.gz.")
    if source_attributes.get("command") or not script.endswith(".py"):
        text = f"{path}: only a Python program can be started from an archive in S3."
        raise UsageError(text, "Set entry_script to a .py file without a command, or give a local folder.")
    if source_attributes.get("requirements") not in (None, _REQUIREMENTS):
        raise UsageError(f"{path}.requirements must be {_REQUIREMENTS} in an archive in S3.", _BY_HAND)
    return {"source": uri, "entry_point": script}


def _script_folder(
    folder: Path, source_attributes: dict[str, Any], added_files: dict[str, str], path: str
) -> ScriptFolder:
    """Return the folder to pack, with the contents of the files to add to it, by name.

    The image installs a requirements.txt, which ModelTrainer does only if it is named.
    """
    requirements = str(source_attributes.get("requirements") or "")
    if requirements and not (folder / requirements).is_file():
        raise UsageError(f"{path}.requirements {folder / requirements} does not exist.", "Give its path in source_dir.")
    if requirements != _REQUIREMENTS and (folder / _REQUIREMENTS).is_file():
        installed = f"{folder} has a {_REQUIREMENTS}, which the job would install"
        text = f"{installed}, and {path}.requirements is {requirements or None}."
        raise UsageError(text, f"Set {path}.requirements to {_REQUIREMENTS}, or rename the file.")
    return ScriptFolder(
        folder=folder,
        left_out=tuple(source_attributes.get("ignore_patterns") or ()),
        requirements=requirements,
        added=tuple(added_files.items()),
    )


def _program(source_attributes: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the program to start, and the programs to pack, by name. As in the SDK, a command precedes a script."""
    command = source_attributes.get("command")
    script = str(source_attributes.get("entry_script") or "")
    if command:
        words = [
            *str(command).split(),
            *(shlex.quote(str(argument)) for argument in source_attributes.get("args") or ()),
        ]
        return RUNNER, {RUNNER: _PROGRAM.format(arguments=repr(["/bin/bash", "-c", " ".join(words)]))}
    if not script.endswith((".py", ".sh")):
        raise UsageError(f"The entry_script {shown(script)} is neither a .py nor a .sh file.", "Use a command.")
    return script, {}
