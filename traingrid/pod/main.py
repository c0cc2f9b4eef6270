"""Main: the two commands of a pod's containers."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from botocore.exceptions import BotoCoreError

from traingrid.aws.clients import client
from traingrid.log import configure_child
from traingrid.pod.failure import PodError, description_error, download_error, explained, one_line, upload_error
from traingrid.pod.host import TERMINATION_LOG, Host
from traingrid.pod.peers import Peers
from traingrid.pod.prepare import prepare
from traingrid.pod.results import Ending, collect, write_message
from traingrid.transfers.retries import patiently

logger = logging.getLogger(__name__)

COMMANDS = ("prepare", "results")


def run(arguments: Sequence[str], environment: Mapping[str, str], training_ended: Event) -> int:
    """Run a command, and return its exit code. The termination message has the reason of a failure.

    Args:
        arguments: The command: "prepare" or "results".
        training_ended: Set when the training has ended.
    """
    termination_log = Path(environment.get(TERMINATION_LOG) or "/dev/termination-log")
    try:
        configure_child(environment)
        return _run(arguments, environment, training_ended, termination_log)
    except PodError as error:
        reason = one_line(str(error))
    except Exception as error:
        logger.exception("Unexpected error")
        reason = one_line(str(description_error(f"{type(error).__name__}: {error}")))
    logger.error(reason)
    write_message(termination_log, Ending(error=reason).encoded() if "results" in arguments else reason)
    return 1


def _run(arguments: Sequence[str], environment: Mapping[str, str], training_ended: Event, termination_log: Path) -> int:
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        raise description_error(f"The command must be one of {', '.join(COMMANDS)}, not {list(arguments)}.")
    host = Host.from_environment(environment)
    if arguments[0] == "results":
        return collect(host, _s3(host, upload_error), training_ended, termination_log)
    peers = Peers(host)
    prepare(host, _s3(host, download_error))
    peers.wait()
    return 0


def _s3(host: Host, failed: Callable[[str], PodError]) -> Any:
    """Return the client of S3.

    botocore retrieves the credentials when it creates a client, and the EKS Pod Identity Agent may start after the pod.
    """
    try:
        return patiently(partial(client, "s3", host.region or None))
    except BotoCoreError as error:
        raise failed(explained(error, host.request)) from error
