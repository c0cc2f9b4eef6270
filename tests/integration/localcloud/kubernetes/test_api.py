"""The API of a cluster, where a real server has not been asked: sources are in the modules of localcloud/kubernetes."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from localcloud.kubernetes.resources import JOB
from tests.integration.localcloud.kubernetes.running_cluster import (
    JOBS,
    MERGE_PATCH,
    MPI_JOBS,
    Cluster,
    a_cluster,
    indexed_job,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def names_of(found: tuple[int, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in found[1]["items"]]


def test_one_of_many_concurrent_creations_of_a_name_succeeds(cluster: Cluster) -> None:
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(lambda _: cluster.ask("POST", JOBS, indexed_job("same"))[0], range(40)))
    assert Counter(answers) == {201: 1, 409: 39}


def test_the_path_gives_a_body_without_a_kind_its_type(cluster: Cluster) -> None:
    typed = {key: value for key, value in indexed_job("untyped").items() if key not in ("kind", "apiVersion")}
    status, created = cluster.ask("POST", JOBS, typed)
    assert (status, created["kind"], created["apiVersion"]) == (201, "Job", "batch/v1")


def test_a_deleted_object_without_finalizers_is_gone_at_once(cluster: Cluster) -> None:
    cluster.ask("POST", JOBS, indexed_job("gone"))
    status, reply = cluster.ask("DELETE", f"{JOBS}/gone", propagationPolicy="Background")
    assert (status, reply["status"], reply["details"]["kind"]) == (200, "Success", "jobs")
    assert cluster.ask("GET", f"{JOBS}/gone")[0] == 404


def test_foreground_propagation_keeps_the_object_until_its_finalizer_is_removed(cluster: Cluster) -> None:
    cluster.ask("POST", JOBS, indexed_job("foreground"))
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
    _, reply = cluster.ask("DELETE", f"{JOBS}/foreground", options)
    assert reply["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert cluster.ask("PATCH", f"{JOBS}/foreground", {"metadata": {"finalizers": []}}, MERGE_PATCH)[0] == 200
    assert cluster.ask("GET", f"{JOBS}/foreground")[0] == 404


def test_lists_are_selected_by_labels_and_fields(cluster: Cluster) -> None:
    for name, colors in (("a", {"color": "red"}), ("b", {"color": "blue"}), ("c", {})):
        cluster.ask("POST", JOBS, indexed_job(f"label-{name}", labels={"test": "labels", **colors}))
    selected = {
        "test=labels,color=red": ["label-a"],
        "test=labels,color!=red": ["label-b", "label-c"],
        "test=labels,color in (red,blue)": ["label-a", "label-b"],
        "test=labels,color notin (red)": ["label-b", "label-c"],
        "test=labels,!color": ["label-c"],
        "color,test==labels": ["label-a", "label-b"],
    }
    for text, expected in selected.items():
        assert names_of(cluster.ask("GET", JOBS, labelSelector=text.replace(" ", "%20"))) == expected, text
    assert names_of(cluster.ask("GET", JOBS, fieldSelector="metadata.name=label-b")) == ["label-b"]
    assert cluster.ask("GET", JOBS, fieldSelector="spec.suspend=true")[0] == 400
    assert cluster.ask("GET", JOBS, labelSelector="a(b")[0] == 400


def test_a_watch_from_a_version_that_is_no_longer_kept_ends_with_410(cluster: Cluster) -> None:
    before = cluster.ask("GET", JOBS)[1]["metadata"]["resourceVersion"]
    cluster.ask("POST", JOBS, indexed_job("later"))
    cluster.store.compact()
    (event,) = cluster.events(JOBS, resourceVersion=before, timeoutSeconds="5")
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_a_watch_without_a_version_begins_with_the_present_objects(cluster: Cluster) -> None:
    cluster.ask("POST", JOBS, indexed_job("present", labels={"test": "present"}))
    seen = cluster.events(JOBS, labelSelector="test=present", timeoutSeconds="5")
    assert next(seen)["type"] == "ADDED"
    cluster.ask("PATCH", f"{JOBS}/present", {"metadata": {"labels": {"test": "absent"}}}, MERGE_PATCH)
    assert next(seen)["type"] == "DELETED", "it does not match the selector any more"
    assert cluster.ask("GET", JOBS, watch="1", resourceVersion="x")[0] == 400


def test_a_bookmark_ends_the_initial_events_that_a_client_asks_for(cluster: Cluster) -> None:
    _, made = cluster.ask("POST", JOBS, indexed_job("initial", labels={"test": "initial"}))
    watched = {"labelSelector": "test=initial", "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": "5"}
    version = made["metadata"]["resourceVersion"]
    seen = cluster.events(
        JOBS, **watched, sendInitialEvents="true", allowWatchBookmarks="true", resourceVersion=version
    )
    assert next(seen)["type"] == "ADDED", "also with a version"
    bookmark = next(seen)
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "Job")
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    cluster.ask("PATCH", f"{JOBS}/initial", {"metadata": {"annotations": {"a": "b"}}}, MERGE_PATCH)
    assert next(seen)["type"] == "MODIFIED"
    later = cluster.events(JOBS, **watched, sendInitialEvents="false")
    with ThreadPoolExecutor() as pool:
        first, changes = pool.submit(next, later), count()
        while not first.done():  # the watch begins at the version that it finds
            change = {"metadata": {"annotations": {"a": f"change {next(changes)}"}}}
            cluster.ask("PATCH", f"{JOBS}/initial", change, MERGE_PATCH)
    assert first.result()["type"] == "MODIFIED"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            {"resourceVersionMatch": "NotOlderThan"},
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
def test_initial_events_require_both_parameters(cluster: Cluster, query: dict[str, str], problem: str) -> None:
    code, status = cluster.ask("GET", JOBS, watch="1", **query)
    text = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {problem}'
    assert (code, status["reason"], status["message"]) == (422, "Invalid", text)


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"spec": {"parallelism": "two"}}, 400, "cannot unmarshal string into Go struct field Job.spec.parallelism"),
        ({"spec": {"template": None}}, 422, "spec.template: Required value"),
        ({"metadata": {"name": "x" * 254}}, 422, "must be no more than 253 characters"),
        ({"metadata": {"name": ""}}, 422, "metadata.name: Required value"),
        ({"metadata": {"labels": {"a": "b c"}}}, 422, "metadata.labels.a: Invalid value"),
        ({"metadata": {"namespace": "other"}}, 400, "does not match the namespace"),
        ({"kind": "Pod"}, 400, "no kind"),
    ],
)
def test_an_object_that_violates_its_schema_is_not_stored(
    cluster: Cluster, changes: dict[str, Any], code: int, text: str
) -> None:
    made = indexed_job("invalid")
    for part, fields in changes.items():
        made[part] = made[part] | fields if isinstance(fields, dict) else fields
    status, reply = cluster.ask("POST", JOBS, made)
    assert (status, reply["status"]) == (code, "Failure")
    assert text in reply["message"]
    assert cluster.ask("GET", f"{JOBS}/invalid")[0] == 404


def test_an_unknown_field_is_dropped_with_a_warning(cluster: Cluster) -> None:
    made = indexed_job("warned")
    made["spec"]["backofLimit"] = 1
    reply = cluster.request("POST", JOBS, made)
    assert (reply.status, reply.headers["Warning"]) == (201, "299 - \"unknown field 'spec.backofLimit'\"")
    assert "backofLimit" not in json.loads(reply.read())["spec"]


def test_an_update_of_an_older_version_conflicts(cluster: Cluster) -> None:
    _, first = cluster.ask("POST", JOBS, indexed_job("updated"))
    first["spec"]["suspend"] = True
    assert cluster.ask("PUT", f"{JOBS}/updated", first)[0] == 200
    status, reply = cluster.ask("PUT", f"{JOBS}/updated", first)
    assert (status, reply["reason"]) == (409, "Conflict")
    kept = cluster.store.get(JOB, "default", "updated")
    assert (kept["metadata"]["generation"], kept["metadata"]["uid"]) == (2, first["metadata"]["uid"])


def test_a_namespace_must_exist(cluster: Cluster) -> None:
    status, reply = cluster.ask("POST", JOBS.replace("default", "nowhere"), indexed_job("lost"))
    assert (status, reply["message"]) == (404, 'namespaces "nowhere" not found')


def test_a_request_needs_a_token_and_a_body_of_limited_size(cluster: Cluster) -> None:
    assert cluster.request("GET", JOBS, token="another-token").status == 401
    made = indexed_job("large", annotations={"a": "x" * (3 << 20)})
    assert cluster.request("POST", JOBS, made).status == 413


@pytest.mark.parametrize(
    ("method", "path", "media", "code"),
    [
        ("GET", "/apis/none.example.com/v1/namespaces/default/things", "application/json", 404),
        ("POST", f"{JOBS}/one", "application/json", 405),
        ("DELETE", JOBS.replace("/namespaces/default", ""), "application/json", 405),
        ("PATCH", f"{MPI_JOBS}/one", "application/strategic-merge-patch+json", 415),
        ("PATCH", f"{JOBS}/one", MERGE_PATCH, 404),
        ("GET", f"{JOBS}/one/scale", "application/json", 404),
    ],
)
def test_a_request_that_is_not_served_says_so(cluster: Cluster, method: str, path: str, media: str, code: int) -> None:
    status, reply = cluster.ask(method, path, None if method == "GET" else {}, media)
    assert (status, reply["code"], reply["kind"]) == (code, code, "Status")
