"""The runners of all training jobs of a localcloud, in every Region."""

import threading

from localcloud.sagemaker.runner import Runner


class Runners:
    """Starts, finds and abandons runners, from any thread."""

    def __init__(self) -> None:
        self._by_arn: dict[str, Runner] = {}
        self._lock = threading.Lock()
        self._is_abandoned = False

    def add(self, runner: Runner) -> None:
        """Make the runner of a new job findable, before the job is visible."""
        with self._lock:
            self._by_arn[runner.job.arn] = runner

    def start(self, runner: Runner) -> None:
        """Start a runner; while the server stops, its job stays in Starting."""
        with self._lock:
            if not self._is_abandoned:
                runner.start()

    def of(self, arn: str) -> Runner:
        """Return the runner of a job by the job's ARN."""
        return self._by_arn[arn]

    def abandon_all(self) -> None:
        """End every runner when the server stops. Requests are still served meanwhile: no job starts from now on."""
        with self._lock:
            self._is_abandoned = True
            runners = list(self._by_arn.values())
        for runner in runners:
            runner.abandon()
