"""Real accounts: a run starts only with consent, stays within its budget and deletes its resources."""

import hashlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

import conformance.claims  # noqa: F401 - declares the claims
from conformance.account import RefusedError, account_place
from conformance.aws import Aws, Place
from conformance.claim import CLAIMS, Claim
from conformance.cost import estimated_dollars
from conformance.public_image import NAME, PublicImage
from conformance.runner import Instances, run
from conformance.sources import page
from conformance.undo import InterruptedRunError, Undo

ACCOUNT = "210987654321"
REGIONS = ("us-east-1", "eu-west-1")
ROOT = Path(__file__).resolve().parents[3]


class Session:
    """A session with an account's credentials; before the user agrees, only STS may be called."""

    def __init__(self, account: str = ACCOUNT) -> None:
        self.asked: list[str] = []
        self._account = account

    def client(self, service: str, **_: Any) -> Any:
        self.asked.append(service)
        return SimpleNamespace(get_caller_identity=lambda: {"Account": self._account})


def begin(
    session: Any, *, agreed: bool = True, budget: float = 5.0, account: str = ACCOUNT, regions: Any = REGIONS
) -> Any:
    return account_place(account, regions, budget, CLAIMS, agreed=lambda question: agreed, session=session)


def test_a_run_starts_in_the_credentials_account_if_its_owner_agrees() -> None:
    place = begin(Session())
    assert (place.account, place.regions, place.endpoint, place.pace) == (ACCOUNT, REGIONS, None, 1.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"account": "12"}, "twelve digits"),
        ({"regions": ["us-east-1"]}, "two Regions"),
        ({"regions": ["us-east-1", "us-east-1"]}, "two Regions"),
        ({"budget": 0.01}, "BUDGET=0.01"),
        ({"agreed": False}, "Nothing was created"),
    ],
)
def test_a_run_is_refused_before_anything_is_created(options: dict[str, Any], words: str) -> None:
    session = Session()
    with pytest.raises(RefusedError, match=words):
        begin(session, **options)
    assert set(session.asked) <= {"sts"}


def test_credentials_of_another_account_are_refused() -> None:
    session = Session("123456789012")
    with pytest.raises(RefusedError, match="another account"):
        begin(session)
    assert session.asked == ["sts"]


def test_make_reads_the_account_only_from_its_command_line() -> None:
    def command(*arguments: str) -> str:
        environment = {**os.environ, "ACCOUNT": ACCOUNT}
        make = ["make", "--dry-run", "conformance", *arguments]
        done = subprocess.run(make, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
        return next(line for line in done.stdout.splitlines() if "-m conformance" in line)

    assert "--account" not in command()
    assert f"--account {ACCOUNT} --regions us-east-1,eu-west-1 --budget 2" in command(f"ACCOUNT={ACCOUNT}", "BUDGET=2")


def test_the_whole_suite_costs_less_than_five_dollars() -> None:
    assert 0.25 < estimated_dollars(CLAIMS) < 5


def test_resources_are_deleted_in_reverse_order_despite_failures() -> None:
    undo, deleted = Undo(), list[str]()

    def fails() -> None:
        raise TimeoutError("the deletion timed out")

    undo.later("first", lambda: deleted.append("first"))
    undo.later("second", fails)
    undo.later("third", lambda: deleted.append("third"))
    assert undo.everything() == ["second: the deletion timed out"]
    assert deleted == ["third", "first"]


def test_nothing_is_created_once_the_deletion_has_begun() -> None:
    undo, deleted = Undo(), list[str]()
    undo.everything()
    with pytest.raises(InterruptedRunError):
        undo.later("late", lambda: deleted.append("late"))
    assert deleted == ["late"], "a resource that was created just before is deleted at once"


def test_ctrl_c_deletes_all_resources() -> None:
    deleted, created = list[str](), threading.Event()

    def check(aws: Aws) -> None:
        aws.undo.later("it", lambda: deleted.append("it"))
        created.set()
        aws.wait(lambda: False)

    def interrupt() -> None:
        created.wait(120)
        os.kill(os.getpid(), signal.SIGINT)

    source = page("https://docs.aws.amazon.com/")
    claim = Claim(name="it", area="a", sentence="It.", sources=(source,), used_by=("x",), check=check)
    place = Place(
        account=ACCOUNT,
        regions=REGIONS,
        session=boto3.Session(),
        endpoint=None,
        copy_image=lambda *_: None,
        poll_seconds=0.01,
        patience_seconds=60.0,
    )
    threading.Thread(target=interrupt).start()
    done = run(place, [claim], workers=1, instances=1)
    assert done.interrupted
    assert deleted == ["it"]


def test_claims_wait_for_instances() -> None:
    free, order = Instances(2), list[str]()

    def take() -> None:
        with free.taken(1):
            order.append("late")

    late = threading.Thread(target=take)
    with free.taken(2):
        late.start()
        order.append("early")
    late.join(5)
    assert order == ["early", "late"]


LAYER, CONFIG = b"layer" * 10, b"{}"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"digest": digest(CONFIG)},
        "layers": [{"digest": digest(LAYER)}],
    }
).encode()
INDEX = json.dumps(
    {
        "manifests": [
            {"digest": "sha256:arm", "platform": {"os": "linux", "architecture": "arm64"}},
            {"digest": digest(MANIFEST), "platform": {"os": "linux", "architecture": "amd64"}},
        ]
    }
).encode()


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry that serves an image to every client with a token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            base = f"/v2/{NAME}/"
            replies = {f"{base}blobs/{digest(part)}": part for part in (LAYER, CONFIG)}
            replies |= {f"{base}manifests/{digest(MANIFEST)}": MANIFEST, f"{base}manifests/3.11-slim-bookworm": INDEX}
            body = b'{"token": "t"}' if self.path.startswith("/token/") else replies.get(self.path)
            allowed = self.path.startswith("/token/") or self.headers["Authorization"] == "Bearer t"
            self.send_response(200 if body is not None and allowed else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Suppress the log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


class Repository:
    """Amazon ECR's API for images: each layer is uploaded and checked by its digest, and then the manifest."""

    def __init__(self) -> None:
        self.layers: dict[str, bytes] = {}
        self.image: dict[str, str] = {}
        self._upload = b""

    def batch_check_layer_availability(self, repositoryName: str, layerDigests: list[str]) -> Any:  # noqa: N803  # AWS's parameter name
        known = [
            {"layerDigest": each, "layerAvailability": "AVAILABLE"} for each in layerDigests if each in self.layers
        ]
        return {"layers": known, "failures": []}

    def initiate_layer_upload(self, repositoryName: str) -> Any:  # noqa: N803  # AWS's parameter name
        self._upload = b""
        return {"uploadId": "u"}

    def upload_layer_part(self, partFirstByte: int, layerPartBlob: bytes, **_: Any) -> None:  # noqa: N803  # AWS's parameter name
        assert partFirstByte == len(self._upload)
        self._upload += layerPartBlob

    def complete_layer_upload(self, layerDigests: list[str], **_: Any) -> None:  # noqa: N803  # AWS's parameter name
        assert [digest(self._upload)] == layerDigests
        self.layers[layerDigests[0]] = self._upload

    def put_image(self, **image: str) -> None:
        self.image = image


def test_a_public_image_is_copied_for_this_architecture(registry: str) -> None:
    repository, image = Repository(), PublicImage(registry)
    image.copy(repository, "images", "python")
    assert repository.layers == {digest(LAYER): LAYER, digest(CONFIG): CONFIG}
    assert repository.image["imageManifest"].encode() == MANIFEST
    assert repository.image["imageTag"] == "python"
    image.copy(repository, "images", "again")
    assert repository.image["imageTag"] == "again"
