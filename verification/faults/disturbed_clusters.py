"""E20 to E26, disturbances of clusters: deleted objects, lost nodes, watches and controllers, and preemption."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from localcloud.faults.plan import CallFault, Stub
from localcloud.kubernetes.pod_requests import evict_pod
from localcloud.kubernetes.resources import JOB, MPI_JOB_RESOURCE, NAMESPACE, POD
from localcloud.kubernetes.status import ApiError
from traingrid import names
from traingrid.audit.violation import Violation
from traingrid.job.failures import CONFLICT, DELETED, INVALID_REQUEST, LOST_NODE, PERMISSION
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.damage import intact
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import cancel_of_job
from verification.deployed_grid import until
from verification.faults.clusters import grant_access
from verification.faults.faulty_grid import ENDLESS_SECONDS, FaultyGrid, settled
from verification.faults.kills import otherwise_ended, states
from verification.faults.live_jobs import object_of, pods_of
from verification.faults.races import count_created
from verification.faults.submissions import REGIONS, Submission
from verification.faults.table import Outcome

_LINES_AT_ONCE = 20
_PROPAGATIONS = ("Background", "Foreground", "Orphan")
"""The values of kubectl's `--cascade`: by default background."""
_QUEUE = "gpus"
_WARNING_SECONDS = {"drained": 600.0, "interrupted": 2.0, "lost": 0.0}
"""The seconds from the notice of a disruption to the end of the node."""
_SLOW_STOP = Stub(seconds=ENDLESS_SECONDS, stop_seconds=6.0)
_CLAIM_SECONDS = 6.0
"""Time between the death of a child and the first call of the next one."""
_OF_THE_NAMESPACE = {DELETED.name, LOST_NODE.name, PERMISSION.name, INVALID_REQUEST.name}
"""Failures of lines whose namespace is deleted: the object is gone, or the pods are lost and the next attempt is
refused, without the Roles or because the namespace is ending."""
_LATE_LINES = 2
_RESTARTED_SECONDS = 1500.0
"""More than 100 lines need in clusters whose controllers work for a third of the time."""
_FOUND_SECONDS = 60.0
"""Longer than the next child needs to find the object on a busy machine, and short enough to wait for it where the
object has no finalizer and the line trains again."""
_SHORT_TRAINING = 20.0
"""Longer than the preemption of all objects takes on a busy machine, and short enough to wait for."""


def deleted(grid: FaultyGrid, lines: int) -> Outcome:
    """E20: a person deletes the objects of running lines in each way of kubectl, with and without their children.

    Each line must be recorded as stopped by a person, and no pod may be left.
    """
    submissions, violations = list[Submission](), list[Violation]()
    for start in range(0, lines, _LINES_AT_ONCE):
        grid.plan(stub_seconds=ENDLESS_SECONDS)
        submission = grid.submit(max(2, min(_LINES_AT_ONCE, lines - start)))
        submissions.append(submission)
        until(lambda current=submission: _all_train(grid, current), "every line trains")  # type: ignore[misc]  # see kills.py
        is_lost = start // _LINES_AT_ONCE % 2 == 1
        if is_lost:
            grid.lose_children(submission)
        for index, (region, name) in _training_jobs(grid, submission).items():
            _delete(grid, region, name, _PROPAGATIONS[index % len(_PROPAGATIONS)])
        settled(grid, [submission], passes=3 if is_lost else 0)
        until(lambda current=submission: grid.recorded(current), "every end is recorded")  # type: ignore[misc]  # as above
        violations += [*otherwise_ended(grid, [submission], {"Stopped"}), *_pods_left(grid, submission)]
        for item in intact(grid.plane.ledger.jobs(submission.id)):
            if "but not by traingrid" not in item.reason:
                violations.append(_violation("I4", submission, f"job {item.index} has the reason: {item.reason}"))
    return Outcome(
        volume=f"{sum(submitted.lines for submitted in submissions)} objects",
        violations=[*grid.audit(*(submitted.id for submitted in submissions)), *violations],
        facts={"states": states(grid, submissions)},
    )


def deleted_before_attach(grid: FaultyGrid, lines: int) -> Outcome:
    """E20: kill every child right after its create, and delete the object before the next child looks for it."""
    submissions = [_deleted_before_attach(grid, some) for some in _rounds(lines)]
    ids = [submission.id for submission in submissions]
    return Outcome(
        volume=f"{lines} objects",
        violations=[*grid.audit(*ids), *otherwise_ended(grid, submissions, {"Stopped"})],
        facts={"states": states(grid, submissions), "training_jobs": count_created(grid, ids)},
    )


def _deleted_before_attach(grid: FaultyGrid, lines: int) -> Submission:
    dies = CallFault(effect="kill_after", action=grid.engine.create, caller="batch/*/1")
    late = CallFault(effect="delay", seconds=_CLAIM_SECONDS, caller="batch/*/2", nth=1)
    grid.plan(stub_seconds=_FOUND_SECONDS, calls=(dies, late))
    submission = grid.submit(lines)
    until(lambda: _struck(grid, "kill_after") == lines, "every child has been killed")
    for region, name in _training_jobs(grid, submission).values():
        _delete(grid, region, name, "Background")
    settled(grid, [submission])
    until(lambda: grid.recorded(submission), "every end is recorded")
    return submission


def drained(grid: FaultyGrid, disruptions: int) -> Outcome:
    """E21: evict pods, drain nodes, interrupt and lose them while lines train; every line must complete."""
    chance, struck = random.Random(grid.seed), Counter[str]()  # noqa: S311 - moments, no secrets
    submissions, left = list[Submission](), disruptions
    while left > 0:
        grid.plan(stub_seconds=5.0)
        submissions.append(grid.submit(_LINES_AT_ONCE if left > 3 else 4, retries=20))
        until(lambda: _all_begun(grid, submissions[-1]), "every line has begun")
        for _ in range(min(left, _LINES_AT_ONCE)):
            struck.update(_disturb_a_node(grid, chance))
            time.sleep(chance.uniform(0.0, 0.4))
        left -= min(left, _LINES_AT_ONCE)
        settled(grid, submissions[-1:])
    for submission in submissions:
        until(lambda current=submission: grid.recorded(current), "every end is recorded")  # type: ignore[misc]  # see kills.py
    ids = [deployed.id for deployed in submissions]
    return Outcome(
        volume=f"{struck.total()} disruptions, {sum(deployed.lines for deployed in submissions)} lines",
        struck=struck.total(),
        violations=[*grid.audit(*ids), *otherwise_ended(grid, submissions, {"Completed"})],
        facts={"ways": dict(struck), "training_jobs": count_created(grid, ids), "states": states(grid, submissions)},
    )


def watches_lost(grid: FaultyGrid, lines: int) -> Outcome:
    """E3: end and break watches, and compact the history all the time (410), while lines train."""
    grid.plan(stub_seconds=3.0, calls=(CallFault(effect="lose_reply", action="watch *", share=0.3, seconds=1.0),))
    count = Counter[str]()

    def disturb() -> None:
        for region in REGIONS:
            grid.cluster(region).faults.end_watches(abruptly=count["ended"] % 2 == 0)
            grid.cluster(region).compact()
            count["ended"] += 1

    with _meanwhile(disturb, every=0.5), grid.children_at_once(lines):
        submission = grid.submit(lines)
        settled(grid, [submission])
    until(lambda: grid.recorded(submission), "every end is recorded")
    return Outcome(
        volume=f"{lines} lines",
        struck=count["ended"],
        violations=[*grid.audit(submission.id), *otherwise_ended(grid, [submission], {"Completed"})],
        facts={
            "compactions": count["ended"],
            "watches_broken": len(grid.cloud.faults.struck_calls()),
            **_record_delays(grid, submission),
        },
    )


def controllers_restarted(grid: FaultyGrid, lines: int) -> Outcome:
    """E22: pause and restart the Job controller, the operator and the scheduler while lines start, train and stop."""
    chance, restarts = random.Random(grid.seed), Counter[str]()  # noqa: S311 - moments, no secrets

    def restart() -> None:
        clusters = [grid.cluster(region) for region in REGIONS]
        for cluster in clusters:
            cluster.pause_controllers()
        time.sleep(chance.uniform(0.2, 2.0))
        for cluster in clusters:
            cluster.resume_controllers()
        restarts["restarts"] += 1

    grid.plan(stubs=(Stub(name="*[02468]-1", seconds=ENDLESS_SECONDS),), stub_seconds=1.0)
    with _meanwhile(restart, every=0.5), grid.children_at_once(lines):
        submission = grid.submit(lines)
        time.sleep(4.0)
        for index in range(0, lines, 2):
            grid.cancel(submission, index)
        grid.ended(submission.batch_job, seconds=_RESTARTED_SECONDS)
        settled(grid, [submission], passes=2)
    until(lambda: grid.recorded(submission), "every end is recorded")
    violations = [*otherwise_ended(grid, [submission], {"Completed", "Stopped"}), *_pods_left(grid, submission)]
    return Outcome(
        volume=f"{lines} lines",
        struck=restarts["restarts"],
        violations=[*grid.audit(submission.id), *violations],
        facts={**restarts, "states": states(grid, [submission])},
    )


def preempted(grid: FaultyGrid, lines: int) -> Outcome:
    """E23: suspend running lines of a queue of Kueue, as for jobs with a higher priority; each must complete.

    A preemption is a restart of the pods, and neither an end nor another attempt.
    """
    return _together(f"{lines} preemptions", [_preempted(grid, some) for some in _rounds(lines)])


def _preempted(grid: FaultyGrid, lines: int) -> Outcome:
    for region in REGIONS:
        grid.cluster(region).queues[_QUEUE] = lines
    grid.plan(stub_seconds=_SHORT_TRAINING)
    submission = grid.submit(lines, fields={"eks_queue": _QUEUE})
    until(lambda: _all_train(grid, submission), "every line trains")
    for region, name in _training_jobs(grid, submission).values():
        grid.cluster(region).preempt(name, 1.0)
    settled(grid, [submission])
    until(lambda: grid.recorded(submission), "every end is recorded")
    again = [item for item in intact(grid.plane.ledger.jobs(submission.id)) if item.attempt != 1]
    violations = [_violation("I2", submission, f"job {item.index} is at attempt {item.attempt}") for item in again]
    return Outcome(
        volume=f"{lines} preemptions",
        violations=[*grid.audit(submission.id), *otherwise_ended(grid, [submission], {"Completed"}), *violations],
        facts={"states": states(grid, [submission])},
    )


def foreign(grid: FaultyGrid, lines: int) -> Outcome:
    """E24: a person's objects have the names of our training jobs; lines fail, and nothing of theirs is changed."""
    grid.plan(stub_seconds=10.0)
    uploaded = grid.upload(lines)
    uids = {}
    for index in range(lines):
        region, name = REGIONS[index % 2], names.training_job("grid", uploaded, index, 1)
        created = grid.cluster(region).client.create(JOB, _namespace(grid, region), _persons_job(name))
        uids[region, name] = created["metadata"]["uid"]
    submission = grid.submitted(uploaded)
    settled(grid, [submission])
    until(lambda: grid.recorded(submission), "every end is recorded")
    violations = [*otherwise_ended(grid, [submission], {"Failed"})]
    violations += [
        _violation("I4", submission, f"job {item.index} has the failure {item.failure}")
        for item in intact(grid.plane.ledger.jobs(submission.id))
        if item.failure != CONFLICT.name
    ]
    for (region, name), uid in uids.items():
        current = object_of(grid.cluster(region), name)
        if not current or current[1]["metadata"]["uid"] != uid or "deletionTimestamp" in current[1]["metadata"]:
            violations.append(_violation("I3", submission, f"{name} of another person was deleted"))
        _delete(grid, region, name, "Background")
    return Outcome(
        volume=f"{lines} names",
        violations=[*grid.audit(submission.id), *violations],
        facts={"states": states(grid, [submission])},
    )


def stopped_completely(grid: FaultyGrid, lines: int) -> Outcome:
    """E25: cancel lines whose pods take seconds to stop; no end may be recorded before the last pod has ended.

    Only the intents are recorded, so that the children stop their training jobs and record the ends.
    """
    return _together(f"{lines} cancels", [_stopped_completely(grid, some) for some in _rounds(lines)])


def _stopped_completely(grid: FaultyGrid, lines: int) -> Outcome:
    grid.plan(stubs=(_SLOW_STOP,))
    submission = grid.submit(lines)
    until(lambda: _all_train(grid, submission), "every line trains")
    for index in range(lines):
        grid.plane.ledger.request_cancel(submission.id, cancel_of_job(index), {"by": "test", "reason": ""})
    early = dict[int, Violation]()

    def watched() -> bool:
        early.update(_recorded_early(grid, submission))
        return grid.recorded(submission)

    until(watched, "every end is recorded")
    settled(grid, [submission])
    ended = otherwise_ended(grid, [submission], {"Stopped"})
    return Outcome(
        volume=f"{lines} cancels",
        violations=[*grid.audit(submission.id), *ended, *early.values()],
        facts={"states": states(grid, [submission])},
    )


def namespace_deleted(grid: FaultyGrid, lines: int) -> Outcome:
    """E26: a person deletes the namespace, with the Roles of the grid; lines must not be lost, and show the reason.

    The finalizers of the objects keep the namespace until its owner removes them, because neither the children nor the
    reconciler have access any more. After the owner has granted access to a new namespace, all ends are recorded. A
    line whose next attempt begins only then trains in the new namespace.
    """
    outcomes = [_namespace_deleted(grid, some) for some in _rounds(lines)]
    return _together(f"{lines} lines, then {_LATE_LINES * len(outcomes)}", outcomes)


def _namespace_deleted(grid: FaultyGrid, lines: int) -> Outcome:
    grid.plan(stubs=(Stub(name="*-1", seconds=ENDLESS_SECONDS),), stub_seconds=1.0)
    submission = grid.submit(lines)
    until(lambda: _all_train(grid, submission), "every line trains")
    for region in REGIONS:
        grid.cluster(region).client.delete(NAMESPACE, "", _namespace(grid, region))
    until(lambda: not any(pods_of(grid.cluster(region)) for region in REGIONS), "no pod is left")
    late = grid.submit(_LATE_LINES)
    until(lambda: grid.recorded(late), "lines fail that begin without access")
    for region in REGIONS:
        _remove_finalizers(grid, region)
    until(lambda: all(_is_gone(grid, region) for region in REGIONS), "the namespaces are gone")
    grant_access(grid.cloud, grid.plane.deployment)
    settled(grid, [submission, late], passes=2)
    until(lambda: grid.recorded(submission), "every end is recorded")
    reasons = {item.reason for item in intact(grid.plane.ledger.jobs(late.id))}
    violations = [_violation("I4", late, f"the reason is: {reason}") for reason in reasons if "namespace" not in reason]
    for item in intact(grid.plane.ledger.jobs(submission.id)):
        for attempt in item.attempts().values():
            is_known = attempt.failure in _OF_THE_NAMESPACE or (item.tried and attempt.state == JobState.COMPLETED)
            if not is_known:
                sentence = f"attempt {attempt.attempt} of job {item.index} has {attempt.failure}: {attempt.reason}"
                violations.append(_violation("I4", submission, sentence))
    return Outcome(
        volume=f"{lines} lines, then {_LATE_LINES}",
        violations=[
            *grid.audit(submission.id, late.id),
            *otherwise_ended(grid, [submission], {"Failed", "Completed"}),
            *otherwise_ended(grid, [late], {"Failed"}),
            *violations,
        ],
        facts={"reasons": sorted(reasons), "states": states(grid, [submission, late])},
    )


def _remove_finalizers(grid: FaultyGrid, region: str) -> None:
    """Remove our finalizers, as the owner of a namespace does with `kubectl patch`."""
    cluster, namespace = grid.cluster(region), _namespace(grid, region)
    for resource in (JOB, MPI_JOB_RESOURCE):
        for entry in cluster.store.all(resource, namespace)[0]:
            cluster.client.update(resource, entry, lambda changed: changed["metadata"].pop("finalizers", None))


def _is_gone(grid: FaultyGrid, region: str) -> bool:
    return grid.cluster(region).client.find(NAMESPACE, "", _namespace(grid, region)) is None


def _training_jobs(grid: FaultyGrid, submission: Submission) -> dict[int, tuple[str, str]]:
    """Return the Region and the name of the present training job of each line, by index."""
    return {
        item.index: (item.region, names.training_job("grid", submission.id, item.index, item.attempt))
        for item in intact(grid.plane.ledger.jobs(submission.id))
    }


def _rounds(lines: int) -> list[int]:
    """Return the numbers of lines that train at once: a new account's quota of Fargate admits 24 children."""
    return [min(_LINES_AT_ONCE, lines - start) for start in range(0, lines, _LINES_AT_ONCE)]


def _together(volume: str, rounds: Sequence[Outcome]) -> Outcome:
    """Return the outcome of several rounds."""
    counted = sum((Counter(outcome.facts["states"]) for outcome in rounds), Counter[str]())
    reasons = sorted({reason for outcome in rounds for reason in outcome.facts.get("reasons", ())})
    facts = {"states": dict(counted)} | ({"reasons": reasons} if reasons else {})
    violations = [violation for outcome in rounds for violation in outcome.violations]
    return Outcome(volume=volume, violations=violations, facts=facts)


def _all_train(grid: FaultyGrid, submission: Submission) -> bool:
    phases = [item.phase for item in intact(grid.plane.ledger.jobs(submission.id))]
    return len(phases) == submission.lines and set(phases) == {"Training"}


def _all_begun(grid: FaultyGrid, submission: Submission) -> bool:
    states = grid.states(submission.id)
    return len(states) == submission.lines and set(states.values()) <= {"InProgress", *FINAL_STATES}


def _namespace(grid: FaultyGrid, region: str) -> str:
    settings = grid.plane.deployment.grid.regions[region].eks
    return settings.namespace if settings else ""


def _delete(grid: FaultyGrid, region: str, name: str, propagation: str) -> None:
    cluster = grid.cluster(region)
    resource_and_object = object_of(cluster, name)
    if resource_and_object:
        cluster.client.delete(resource_and_object[0], _namespace(grid, region), name, propagation=propagation)


def _pods_left(grid: FaultyGrid, submission: Submission) -> Iterator[Violation]:
    for region, name in _training_jobs(grid, submission).values():
        for pod in pods_of(grid.cluster(region), name):
            sentence = f"the pod {pod['metadata']['name']} is {pod['status'].get('phase')}, though its line has ended"
            yield Violation(invariant="I3", kind="orphan", submission=submission.id, what=sentence)


def _recorded_early(grid: FaultyGrid, submission: Submission) -> Iterator[tuple[int, Violation]]:
    """Yield the lines whose ends are recorded although they have live pods."""
    ended = {item.index for item in intact(grid.plane.ledger.jobs(submission.id)) if item.state in FINAL_STATES}
    for index, (region, name) in _training_jobs(grid, submission).items():
        if index in ended and pods_of(grid.cluster(region), name):
            sentence = f"the end of job {index} of {submission.id} was recorded while its pods ran"
            yield index, Violation(invariant="I3", kind="orphan", submission=submission.id, what=sentence)


def _disturb_a_node(grid: FaultyGrid, chance: random.Random) -> list[str]:
    """Disturb the node of a random running pod; return how, or nothing if no pod runs."""
    region = chance.choice(REGIONS)
    cluster = grid.cluster(region)
    pods = [pod for pod in pods_of(cluster) if pod["spec"].get("nodeName")]
    if not pods:
        return []
    pod = chance.choice(pods)
    node, metadata = pod["spec"]["nodeName"], pod["metadata"]
    way = chance.choice(("evicted", "deleted", *_WARNING_SECONDS))
    with suppress(ApiError):  # it has ended meanwhile
        if way == "evicted":
            evict_pod(cluster.store, metadata["namespace"], metadata["name"])
        elif way == "deleted":
            cluster.client.delete(POD, metadata["namespace"], metadata["name"])
        else:
            cluster.interrupt_node(node, _WARNING_SECONDS[way])
        return [way]
    return []


def _record_delays(grid: FaultyGrid, submission: Submission) -> dict[str, float]:
    """Return the seconds between the end of training jobs and their records: the median and the longest."""
    delays = list[float]()
    for item in intact(grid.plane.ledger.jobs(submission.id)):
        resource_and_object = object_of(grid.cluster(item.region), _training_jobs(grid, submission)[item.index][1])
        conditions = (resource_and_object[1].get("status") or {}).get("conditions", []) if resource_and_object else []
        ends = [
            epoch_seconds(condition["lastTransitionTime"])
            for condition in conditions
            if condition["type"] == "Complete"
        ]
        delays += [epoch_seconds(item.updated_at) - end for end in ends]
    ordered = sorted(delays) or [0.0]
    return {"record_delay_p50": ordered[len(ordered) // 2], "record_delay_most": ordered[-1]}


def _persons_job(name: str) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "args": ["sleep", "60"]}
    return {
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def _struck(grid: FaultyGrid, effect: str) -> int:
    return sum(fault.effect == effect for fault, _ in grid.cloud.faults.struck_calls())


def _violation(invariant: str, submission: Submission, sentence: str) -> Violation:
    return Violation(invariant=invariant, kind="other", submission=submission.id, what=sentence)


@contextmanager
def _meanwhile(work: Callable[[], None], every: float) -> Iterator[None]:
    """Call a function at intervals during the block, in a thread."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every):
            work()

    thread = threading.Thread(target=run, name="disturbance", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
