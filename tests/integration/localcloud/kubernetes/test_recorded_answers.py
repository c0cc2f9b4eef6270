"""The same conversation as with kube-apiserver 1.36.2 and MPIJob's definition, whose answers are in answers.txt."""

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.localcloud.kubernetes.running_cluster import MERGE_PATCH, MPI_JOBS, Cluster, a_cluster, mpi_job

FIRST, SECOND = f"{MPI_JOBS}/s1-0-1", f"{MPI_JOBS}/s1-1-1"
ANSWERS = (Path(__file__).parent / "answers.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with a_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        return [line.rstrip() for line in Conversation(cluster).lines()]


@pytest.mark.parametrize("number", range(len(ANSWERS)), ids=[answer[:52].strip() for answer in ANSWERS])
def test_the_answer_is_that_of_a_real_server(conversation: list[str], number: int) -> None:
    assert conversation[number] == ANSWERS[number].rstrip()


class Conversation:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def lines(self) -> Iterator[str]:
        yield from self.creations()
        status, found = self.cluster.ask("GET", MPI_JOBS, labelSelector="grid=traingrid")
        version = found["metadata"]["resourceVersion"]
        yield line("list by label", f" {status}", found["kind"], len(found["items"]), bool(version))
        watched = Watched(self.cluster, version)
        yield from self.updates()
        yield from self.deletions()
        watched.thread.join()
        yield line("watch saw", f" {watched.seen}")
        yield from self.the_rest()

    def answer(
        self,
        what: str,
        method: str,
        path: str,
        *arguments: Any,
        facts: Callable[[Any], list[Any]] = lambda _: [],
        **query: str,
    ) -> str:
        status, body = self.cluster.ask(method, path, *arguments, **query)
        return line(what, status, body.get("reason") or body.get("kind"), *facts(body))

    def creations(self) -> Iterator[str]:
        def created(body: Any) -> list[Any]:
            return [sorted(body["metadata"])[:3], body["metadata"]["generation"], "status" in body]

        yield self.answer("create", "POST", MPI_JOBS, mpi_job("s1-0-1"), facts=created)
        yield self.answer("create again: name is taken", "POST", MPI_JOBS, mpi_job("s1-0-1"), facts=message_and_details)
        bad = mpi_job("s1-9-1")
        del bad["spec"]["mpiReplicaSpecs"]
        yield self.answer("create without required field", "POST", MPI_JOBS, bad, facts=message_to(90))
        bad = mpi_job("s1-9-1")
        bad["spec"]["slotsPerWorker"] = "two"
        yield self.answer("create with wrong type", "POST", MPI_JOBS, bad, facts=message_to(90))
        bad = mpi_job("s1-9-1")
        bad["spec"]["slotsPerWorkre"] = 2
        strict = {"fieldValidation": "Strict"}
        yield self.answer("unknown field, Strict", "POST", MPI_JOBS, bad, facts=message_to(120), **strict)
        yield self.answer("bad name", "POST", MPI_JOBS, mpi_job("S1_0"), facts=message_to(70))
        yield self.answer("get of an absent object", "GET", f"{MPI_JOBS}/nope", facts=message_and_details)

    def updates(self) -> Iterator[str]:
        def first_condition(body: Any) -> Any:
            return body["status"]["conditions"][0]["type"]

        def of_status(body: Any) -> list[Any]:
            return [first_condition(body), "generation", body["metadata"]["generation"]]

        def of_spec(body: Any) -> list[Any]:
            return ["generation", body["metadata"]["generation"], first_condition(body)]

        yield self.answer("create second", "POST", MPI_JOBS, mpi_job("s1-1-1"))
        running = copy.deepcopy(self.cluster.ask("GET", SECOND)[1])
        running["status"] = {"conditions": [{"type": "Running", "status": "True"}]}
        yield self.answer("PUT status", "PUT", f"{SECOND}/status", running, facts=of_status)
        old = "PUT status with the old resourceVersion"
        yield self.answer(old, "PUT", f"{SECOND}/status", running, facts=message_to(70))
        suspended = {"spec": {"runPolicy": {"suspend": True}}}
        yield self.answer("PATCH spec: suspend", "PATCH", SECOND, suspended, MERGE_PATCH, facts=of_spec)

    def deletions(self) -> Iterator[str]:
        def marked(body: Any) -> list[Any]:
            return ["deletionTimestamp" in body.get("metadata", {})]

        def message(body: Any) -> list[Any]:
            return [body["message"]]

        yield self.answer("DELETE while a finalizer stands", "DELETE", SECOND, facts=marked)
        taken = "create while being deleted: name still taken"
        yield self.answer(taken, "POST", MPI_JOBS, mpi_job("s1-1-1"), facts=message)
        recorded = {"metadata": {"finalizers": None}}
        yield self.answer("PATCH finalizer away", "PATCH", SECOND, recorded, MERGE_PATCH)
        yield self.answer("get after that", "GET", SECOND)
        yield self.answer("create after that: the name is free again", "POST", MPI_JOBS, mpi_job("s1-1-1"))

    def the_rest(self) -> Iterator[str]:
        other: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        other |= {"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}
        yield self.answer("DELETE with a wrong uid", "DELETE", SECOND, other, facts=message_to(60))
        status, page = self.cluster.ask("GET", MPI_JOBS, limit="1")
        more = page["metadata"].get("continue", "")
        yield line("list limit=1", f" {status}", len(page["items"]), bool(more))
        status, page = self.cluster.ask("GET", MPI_JOBS, limit="1", **{"continue": more})
        names = [item["metadata"]["name"] for item in page["items"]]
        yield line("and its continuation", f" {status}", names, bool(page["metadata"].get("continue")))


class Watched:
    """A watch of four seconds, which begins before the next request."""

    def __init__(self, cluster: Cluster, version: str) -> None:
        self.seen: list[tuple[str, str, int]] = []
        query = {"resourceVersion": version, "timeoutSeconds": "4", "labelSelector": "grid=traingrid"}
        reply = cluster.request("GET", MPI_JOBS, watch="1", **query)

        def read() -> None:
            for entry in reply:
                event = json.loads(entry)
                metadata = event["object"]["metadata"]
                self.seen.append((event["type"], metadata["name"], metadata["generation"]))

        self.thread = threading.Thread(target=read)
        self.thread.start()
        time.sleep(0.1)


def line(what: str, *facts: Any) -> str:
    return " ".join([f"{what:52}", *map(str, facts)])


def message_to(length: int) -> Callable[[Any], list[Any]]:
    return lambda body: [body["message"][:length]]


def message_and_details(body: Any) -> list[Any]:
    return [body["message"], body["details"]]
