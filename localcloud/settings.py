"""Settings: the options of a localcloud server."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.limits.quota import PROFILES, AccountProfile


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one server; the defaults are AWS's documented values if AWS has one.

    Attributes:
        data_dir: Folder for the record, unpacked code, work folders and logs; created if missing.
        port: TCP port on 127.0.0.1; 0 selects a free one.
        batch_stop_grace_seconds: Time between SIGTERM and SIGKILL of a Batch job (AWS Batch, "Job timeouts": 30 s).
        training_stop_grace_seconds: The same for a training job (SageMaker, StopTrainingJob: 120 s).
        lambda_retry_delays_seconds: Delays before the second and third attempt of an asynchronous invocation
            (AWS Lambda, "Error handling for asynchronous invocation": one minute, then two).
        duplicate_event_rate: Fraction of SageMaker's events that are delivered twice. EventBridge delivers at least
            once; SageMaker "may send multiple events for each state change".
        replication_seconds: Time to replicate an image to another Region ("the majority replicate in less than 30
            minutes", Amazon ECR User Guide).
        batch_max_processes: Maximum number of concurrent Batch containers, according to the size of this machine and
            regardless of the compute environments. Others wait in RUNNABLE, as in AWS if Fargate has no capacity.
        training_hosts: Maximum number of concurrent hosts of training jobs; others wait in Pending. 0 derives it from
            the machine's cores and memory. Stubs of training jobs use no hosts.
        api_rates: Refuse calls that exceed the rates of `localcloud.limits.rates`. False for a program that makes calls
            within seconds which are minutes apart in AWS, such as many sweeps of the reconciler.
        keep_training_folders: Keep a training job's /opt/ml after its artifacts are uploaded, for inspection.
        faults: An initial fault plan in JSON (see `localcloud.faults.plan`); empty for none.
        seed: Seed of every random choice, so that a run can be repeated.
        account: The 12-digit id of the server's AWS account.
        account_profile: Initial quotas of every account, `young` or `grown` (see `localcloud.limits`).

    Raises:
        ValueError: If `account` does not have 12 digits, or the profile does not exist.
    """

    data_dir: Path = field(default_factory=lambda: Path(".localcloud"))
    port: int = 0
    batch_stop_grace_seconds: float = 30.0
    training_stop_grace_seconds: float = 120.0
    lambda_retry_delays_seconds: tuple[float, ...] = (60.0, 120.0)
    duplicate_event_rate: float = 0.2
    replication_seconds: float = 0.2
    batch_max_processes: int = 64
    training_hosts: int = 0
    api_rates: bool = True
    keep_training_folders: bool = False
    faults: str = ""
    seed: int = 0
    account: str = "123456789012"
    account_profile: AccountProfile = "grown"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d{12}", self.account, re.ASCII):
            message = f"account must have 12 digits; got {self.account!r}"
            raise ValueError(message)
        if self.account_profile not in PROFILES:
            message = f"account_profile must be one of {', '.join(PROFILES)}; got {self.account_profile!r}"
            raise ValueError(message)
