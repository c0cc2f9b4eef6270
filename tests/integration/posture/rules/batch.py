"""Rules for Batch: the children's privileges, network, logs and retries."""

import re
from collections.abc import Iterator
from typing import Any

from tests.integration.posture.rule import Rule, put, referred, without
from tests.integration.posture.synthesised import Synthesised
from traingrid.job.failures import FOR_GOOD

DEFINITION, COMPUTE = "AWS::Batch::JobDefinition", "AWS::Batch::ComputeEnvironment"
MAX_SECONDS = 14 * 24 * 3600
"""Seconds after which Fargate may stop a task (https://docs.aws.amazon.com/batch/latest/userguide/fargate.html)."""

SECRET_NAMES = re.compile(r"secret|password|passwd|token|credential|(private|access)_?key", re.IGNORECASE)
SECRET_VALUES = re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b|-----BEGIN|\bgh[pousr]_\w{20}")


def no_child_is_privileged(made: Synthesised) -> Iterator[str]:
    for where, container in _containers(made):
        parameters = container.get("LinuxParameters", {})
        if container.get("Privileged") or parameters.get("Devices") or parameters.get("Capabilities"):
            yield f"{where} is privileged on its host"


def a_child_is_an_ordinary_user(made: Synthesised) -> Iterator[str]:
    for where, container in _containers(made):
        if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", container.get("User", "")):
            yield f"{where} runs as {container.get('User', 'the user of its image')}"


def a_child_cannot_write_its_root_file_system(made: Synthesised) -> Iterator[str]:
    for where, container in _containers(made):
        if container.get("ReadonlyRootFilesystem") is not True:
            yield f"{where} can write its root file system"


def an_init_process_passes_signals_on(made: Synthesised) -> Iterator[str]:
    for where, container in _containers(made):
        if container.get("LinuxParameters", {}).get("InitProcessEnabled") is not True:
            yield f"{where} has no init process"


def a_child_ends_before_fargate_ends_it(made: Synthesised) -> Iterator[str]:
    for where, definition in made.properties(DEFINITION):
        if not 60 <= definition.get("Timeout", {}).get("AttemptDurationSeconds", 0) <= MAX_SECONDS:
            yield f"{where} has no timeout within Fargate's limit"


def what_is_for_good_is_not_tried_again(made: Synthesised) -> Iterator[str]:
    """Batch allows 10 attempts and 5 entries (https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html)."""
    for where, definition in made.properties(DEFINITION):
        strategy = definition.get("RetryStrategy", {})
        entries = strategy.get("EvaluateOnExit", [])
        ends = {entry.get("OnExitCode") for entry in entries if entry["Action"] == "EXIT"}
        if ends != {str(code) for code in FOR_GOOD} or len(entries) > 5:
            yield f"{where} fails without retries after {sorted(map(str, ends))}"
        if not 1 <= strategy.get("Attempts", 0) <= 10:
            yield f"{where} has {strategy.get('Attempts')} attempts"


def a_child_logs_to_a_group_that_forgets(made: Synthesised) -> Iterator[str]:
    kept = {name for _, name, group in made.each("AWS::Logs::LogGroup") if group["Properties"].get("RetentionInDays")}
    for where, container in _containers(made):
        logging = container.get("LogConfiguration", {})
        group = referred(logging.get("Options", {}).get("awslogs-group"))
        if logging.get("LogDriver") != "awslogs" or group not in kept:
            yield f"{where} logs to {logging}"


def no_secret_is_in_an_environment(made: Synthesised) -> Iterator[str]:
    for where, name, value in _variables(made):
        if SECRET_NAMES.search(name) or SECRET_VALUES.search(str(value)):
            yield f"{where} has a secret in {name}"


def tags_reach_the_task(made: Synthesised) -> Iterator[str]:
    for where, definition in made.properties(DEFINITION):
        if definition.get("PropagateTags") is not True:
            yield f"{where} does not propagate its tags"


def children_run_on_fargate_in_the_grids_network_only(made: Synthesised) -> Iterator[str]:
    """A network that the grid creates, or one that grid.yaml names."""
    grid_json = made.grid.model_dump_json()
    for where, compute in made.properties(COMPUTE):
        asked = compute["ComputeResources"]
        if asked["Type"] != "FARGATE":
            yield f"{where} is {asked['Type']}"
        resources = made.templates[where.partition("/")[0]]["Resources"]
        for place in (*asked["Subnets"], *asked["SecurityGroupIds"]):
            if referred(place) not in resources and not (isinstance(place, str) and f'"{place}"' in grid_json):
                yield f"{where} runs in {place}, which does not belong to the grid"
        if not asked["Subnets"] or not asked["SecurityGroupIds"]:
            yield f"{where} has no subnet or no security group"


def no_vcpus_beyond_the_grids_limit(made: Synthesised) -> Iterator[str]:
    for where, compute in made.properties(COMPUTE):
        if compute["ComputeResources"]["MaxvCpus"] > made.grid.orchestrator.max_vcpus:
            yield f"{where} may use {compute['ComputeResources']['MaxvCpus']} vCPUs"


def _containers(made: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, definition in made.properties(DEFINITION):
        yield where, definition["ContainerProperties"]


def _variables(made: Synthesised) -> Iterator[tuple[str, str, Any]]:
    for where, container in _containers(made):
        for entry in container.get("Environment", ()):
            yield where, entry["Name"], entry["Value"]
    for where, function in made.properties("AWS::Lambda::Function"):
        for name, value in function.get("Environment", {}).get("Variables", {}).items():
            yield where, name, value


CONTAINER = "ContainerProperties"
RULES = (
    Rule(
        no_child_is_privileged,
        (
            put(DEFINITION, f"{CONTAINER}.Privileged", True),
            put(DEFINITION, f"{CONTAINER}.LinuxParameters.Devices", [{"HostPath": "/dev/kvm"}]),
        ),
    ),
    Rule(
        a_child_is_an_ordinary_user,
        (without(DEFINITION, f"{CONTAINER}.User"), put(DEFINITION, f"{CONTAINER}.User", "0:0")),
    ),
    Rule(
        a_child_cannot_write_its_root_file_system,
        (without(DEFINITION, f"{CONTAINER}.ReadonlyRootFilesystem"),),
    ),
    Rule(an_init_process_passes_signals_on, (without(DEFINITION, f"{CONTAINER}.LinuxParameters"),)),
    Rule(
        a_child_ends_before_fargate_ends_it,
        (without(DEFINITION, "Timeout"), put(DEFINITION, "Timeout.AttemptDurationSeconds", MAX_SECONDS + 1)),
    ),
    Rule(
        what_is_for_good_is_not_tried_again,
        (
            without(DEFINITION, "RetryStrategy.EvaluateOnExit"),
            put(DEFINITION, "RetryStrategy.EvaluateOnExit.0.OnExitCode", "75"),
            put(DEFINITION, "RetryStrategy.Attempts", 11),
        ),
    ),
    Rule(
        a_child_logs_to_a_group_that_forgets,
        (
            without(DEFINITION, f"{CONTAINER}.LogConfiguration"),
            put(DEFINITION, f"{CONTAINER}.LogConfiguration.Options.awslogs-group", "elsewhere"),
        ),
    ),
    Rule(
        no_secret_is_in_an_environment,
        (
            put(DEFINITION, f"{CONTAINER}.Environment.0.Name", "WANDB_ACCESS_KEY"),
            put("AWS::Lambda::Function", "Environment", {"Variables": {"OF": "AKIA0123456789ABCDEF"}}),
        ),
    ),
    Rule(tags_reach_the_task, (without(DEFINITION, "PropagateTags"),)),
    Rule(
        children_run_on_fargate_in_the_grids_network_only,
        (
            put(COMPUTE, "ComputeResources.Type", "EC2"),
            put(COMPUTE, "ComputeResources.Subnets.0", "subnet-0a1b2c3d"),
            put(COMPUTE, "ComputeResources.SecurityGroupIds", []),
        ),
    ),
    Rule(no_vcpus_beyond_the_grids_limit, (put(COMPUTE, "ComputeResources.MaxvCpus", 10_000),)),
)
