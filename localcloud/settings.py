"""What a person may set about a localcloud server."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.limits.quota import PROFILES, AccountProfile


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one server; the defaults are AWS's own figures where AWS has one.

    Attributes:
        data_dir: Folder for the record, unpacked code, work folders and logs; created when missing.
        port: TCP port on 127.0.0.1; 0 takes any free one.
        batch_stop_grace_seconds: Time between SIGTERM and SIGKILL of a Batch job (AWS Batch, "Job timeouts": 30 s).
        training_stop_grace_seconds: The same for a training job (SageMaker, StopTrainingJob: 120 s).
        lambda_retry_delays_seconds: Waits before the second and third try of an asynchronous invocation
            (AWS Lambda, "Error handling for asynchronous invocation": one minute, then two).
        duplicate_event_rate: Share of SageMaker's events that are delivered twice. EventBridge delivers at least
            once; SageMaker "may send multiple events for each state change".
        replication_seconds: How long an image takes to another Region ("the majority replicate in less than 30
            minutes", Amazon ECR User Guide).
        batch_max_processes: How many Batch containers run at once at most, whatever the compute environments allow:
            this machine's size. More wait in RUNNABLE, as they do in AWS when Fargate has no capacity.
        training_hosts: How many hosts of training jobs run at once at most; more wait in Pending. 0 derives it from the
            machine's cores and memory. Stubs of trainings take no room.
        keep_training_folders: Keep a training job's /opt/ml after its artifacts are uploaded, to look into it.
        faults: A plan of faults in JSON, in force from the start (see `localcloud.faults`); empty for none.
        seed: Seed of every random choice, so that a run can be repeated.
        account: The twelve digits of the AWS account that the server is.
        account_profile: Which quotas every account has at first, `young` or `grown` (see `localcloud.limits`).

    Raises:
        ValueError: The account has no twelve digits, or there is no such profile.
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
    keep_training_folders: bool = False
    faults: str = ""
    seed: int = 0
    account: str = "123456789012"
    account_profile: AccountProfile = "grown"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d{12}", self.account, re.ASCII):
            message = f"account {self.account!r}: an AWS account has twelve digits"
            raise ValueError(message)
        if self.account_profile not in PROFILES:
            message = f"account_profile {self.account_profile!r}: must be one of {', '.join(PROFILES)}"
            raise ValueError(message)
