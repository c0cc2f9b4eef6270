"""Local page: a running page of `traingrid ui` on a ledger in memory."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.sample_deployment import SAMPLE_BUCKETS, sample_deployment
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.s3_uri import S3Uri
from traingrid.catalog.campaign_facts import CampaignFacts
from traingrid.job.facts import JobFacts
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.items import JobKey
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.ui.proxy import Proxy
from traingrid.ui.server import Page, listening_socket

SUBMISSION = "0123abcd"
MANIFEST = f"s3://{sample_deployment().manifest_bucket}/manifests/autumn.csv"
REGIONS = tuple(SAMPLE_BUCKETS)


def event_data(event: str) -> dict[str, Any]:
    """Return the data of a server-sent event, whose rows have no names, with rows by name."""
    data: dict[str, Any] = json.loads(event.splitlines()[2].removeprefix("data: "))
    fields = data.pop("fields", [])
    if "rows" in data:
        data["rows"] = {key: dict(zip(fields, values, strict=True)) for key, values in data["rows"].items()}
    return data


class StoredObjects:
    """S3 with objects in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def read(self, uri: S3Uri, version: str | None = None, limit: int | None = None) -> bytes:
        return self.objects[str(uri)]

    def read_if_exists(self, uri: S3Uri, version: str | None = None) -> bytes | None:
        return self.objects.get(str(uri))

    def exists(self, uri: S3Uri, version: str | None = None) -> bool:
        return str(uri) in self.objects

    def read_pinned(self, uri: S3Uri, _version: str | None) -> bytes | None:
        return self.objects.get(str(uri))

    def keys_after(self, prefix: S3Uri, key: str) -> Iterator[str]:
        found = (S3Uri.parse(uri) for uri in sorted(self.objects))
        yield from (one.key for one in found if one.key.startswith(prefix.key) and one.key > key)


class LocalGrid:
    """A control plane whose ledger and objects are in memory."""

    def __init__(self, ledger: Ledger) -> None:
        self.deployment, self.ledger, self.storage = sample_deployment(), ledger, StoredObjects()
        self.plane = ControlPlane(
            deployment=self.deployment,
            ledger=ledger,
            batch=None,  # type: ignore[arg-type]  # not called
            storage=self.storage,  # type: ignore[arg-type]  # has the methods that are called
        )

    def submit(
        self, names: list[str], submission: str = SUBMISSION, line: Mapping[str, str] = {}, manifest: str = MANIFEST
    ) -> list[Job]:
        """Record a submission with a job for each name, in the sample's Regions in turn, and return the jobs.

        Args:
            names: The names.
            submission: The id.
            line: More columns, with the same value in each line, in which "{index}" is the index.
            manifest: The S3 URI of the manifest.
        """
        header = ",".join(("region", "s3_uri", "name", *line))
        rows = [
            ",".join(
                (
                    region,
                    f"s3://{SAMPLE_BUCKETS[region]}/campaign-{index}",
                    name,
                    *(value.format(index=index) for value in line.values()),
                )
            )
            for index, name in enumerate(names)
            for region in [REGIONS[index % len(REGIONS)]]
        ]
        content = "\n".join([header, *rows, ""]).encode()
        jobs = jobs_of_lines(parse(content, self.deployment), self.deployment, submission)
        bucket, file = self.deployment.manifest_bucket, f"submissions/{submission}/jobs.jsonl"
        self.storage.objects[manifest] = content
        self.storage.objects[f"s3://{bucket}/{file}"] = b"".join(f"{job.model_dump_json()}\n".encode() for job in jobs)
        self.ledger.claim_submission(submission, "request", {"jobs": len(jobs), "manifest": manifest})
        array = Array(batch_job=f"batch-{submission}", file="jobs.jsonl", count=len(jobs))
        self.ledger.record_submitted(submission, array.batch_job, [array])
        return jobs

    def open(self, job: Job, submission: str = SUBMISSION, **facts: Any) -> JobKey:
        """Open a job, and record facts about it."""
        self.ledger.open_job(submission, job, [job.region])
        key = JobKey(submission=submission, index=job.index, attempt=1)
        if facts:
            recorded: JobFacts = {"training_job": f"traingrid-{submission}-{job.index}", **facts}  # type: ignore[typeddict-item]  # a test gives fields of JobFacts
            self.ledger.record_job(key, recorded)
        return key

    def train(self, job: Job, submission: str = SUBMISSION, **progress: float) -> JobKey:
        """Open a job that trains."""
        facts: dict[str, Any] = {
            "state": JobState.IN_PROGRESS,
            "phase": "Training",
            "epochs": 20,
            "epoch_seconds": 90.0,
        }
        facts["training_started_at"] = int(time.time()) - 200
        key = self.open(job, submission, **facts, training_job_arn=f"arn:{job.index}")
        if progress:
            self.ledger.record_progress(key, progress)
        return key


class RunningPage:
    """A page that is served in a thread."""

    def __init__(self, page: Page, port: int) -> None:
        self.page, self.port = page, port
        self.url = f"http://127.0.0.1:{port}"
        self.address = f"{self.url}/?token={page.secrets.token}"
        self.cookie = f"traingrid-{port}={page.secrets.session}"

    def request(
        self, path: str, method: str = "GET", body: object = None, **headers: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Return the status, headers and body of an answer. The request has the session's cookie unless it is None."""
        sent = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host=True)
        content = b"" if body is None else json.dumps(body).encode()
        for name, value in {**sent, "Content-Length": str(len(content))}.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(content)
        answer = connection.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def json(self, path: str) -> Any:
        """Return the JSON of an answer."""
        status, _, content = self.request(path)
        assert status == 200, content
        return json.loads(content)


@contextmanager
def running_page(
    plane: ControlPlane,
    *,
    writes: bool = False,
    polls: bool = True,
    port: int = 0,
    read_facts: Callable[[], CampaignFacts | None] = lambda: None,
    proxy: Proxy | None = None,
) -> Iterator[RunningPage]:
    """Serve a page; without `polls`, the ledger is read once."""
    page = Page(plane=plane, grid_file=Path("grid.yaml"), writes=writes, read_facts=read_facts, proxy=proxy)
    with listening_socket(port) as listening:
        server = page.server(listening)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        if polls:
            page.poller.start()
        else:
            page.poller.read(everything=True)
        thread.start()
        try:
            yield RunningPage(page, listening.getsockname()[1])
        finally:
            page.poller.stop()
            server.should_exit = True
            thread.join(20)
