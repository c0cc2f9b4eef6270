"""Children as processes: the only line of a submission, and the processes that run it."""

import os
import subprocess
import sys

from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import Account
from tests.integration.localcloud.compute import LIMIT_SECONDS
from tests.support.ledger_items import existing
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.facts import SubmissionFacts
from traingrid.ledger.items import JobItem
from traingrid.submission.files import jobs_key, normalised


class Line:
    """The only line of a submission, and the children that run it."""

    def __init__(self, account: Account, submission: str, job: Job) -> None:
        self.account, self.submission = account, submission
        self.name = f"traingrid-{submission}-{job.index}"
        self.jobs = S3Uri(account.deployment.manifest_bucket, jobs_key(submission))
        body, index = normalised([job])
        account.storage.write(self.jobs, body, "application/x")
        account.storage.write(S3Uri(self.jobs.bucket, self.jobs.key[:-6] + ".index"), index, "application/x")
        facts: SubmissionFacts = {"manifest": "x", "version": "1", "jobs": 1, "batch_job": f"array-{submission}"}
        account.ledger.claim_submission(submission, "test", facts)

    def child(self) -> subprocess.Popen[str]:
        deployment = self.account.deployment
        variables = {
            "TRAINGRID_GRID": deployment.grid.to_environment(),
            "TRAINGRID_ACCOUNT": deployment.account,
            "TRAINGRID_TABLE": deployment.table,
            "TRAINGRID_MANIFEST_BUCKET": deployment.manifest_bucket,
            "TRAINGRID_POD_IMAGE": deployment.pod_image,
            "S3_ARRAY_FILE": str(self.jobs),
            "AWS_BATCH_JOB_ID": f"array-{self.submission}",
        }
        command = [sys.executable, "-m", "batch_job"]
        return subprocess.Popen(
            command, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def item(self) -> JobItem:
        return existing(self.account.ledger.job(self.submission, 0))

    def state(self) -> JobState | None:
        """Return the line's state, or None before its child has opened it."""
        item = self.account.ledger.job(self.submission, 0)
        return item.state if item else None

    def training(self) -> bool:
        return self.state() == "InProgress"


def ended(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a child, and return its exit code and output."""
    try:
        output, _ = child.communicate(timeout=LIMIT_SECONDS)
    finally:
        child.kill()
    return child.returncode, output


def created(cloud: LocalCloud, line: Line) -> list[tuple[str, str]]:
    """Return the Region and name of every training job that was created for a line."""
    return [
        (entry["region"], entry["parameters"]["TrainingJobName"])
        for entry in cloud.record.entries()
        if entry["action"] == "CreateTrainingJob" and entry["parameters"]["TrainingJobName"].startswith(line.name)
    ]
