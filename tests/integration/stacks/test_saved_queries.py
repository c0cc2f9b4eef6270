"""An operator's queries are saved for the logs, and use existing fields."""

import re
from pathlib import Path

import pytest

from stacks.saved_queries import QUERIES
from tests.integration.stacks.templates import ROOT, Template, flat, resources
from traingrid.log import TRAINING

WORDS = {"fields", "filter", "stats", "sort", "limit", "by", "as", "and", "or", "like", "asc", "desc"}
FUNCTIONS = {"coalesce", "count", "count_distinct", "latest", "ispresent", "bin"}


def test_every_query_is_saved_for_all_logs_of_the_control_plane(control: Template) -> None:
    saved = [found["Properties"] for found in resources(control, "AWS::Logs::QueryDefinition").values()]
    assert {query["Name"] for query in saved} == {f"traingrid/traingrid/{name}" for name in QUERIES}
    groups = {f"<{name}>" for name in resources(control, "AWS::Logs::LogGroup") if "FlowLog" not in name}
    for query in saved:
        assert {flat(name) for name in query["LogGroupNames"]} == groups
    (timeline,) = [query["QueryString"] for query in saved if "timeline" in query["Name"]]
    first, comment, *others = timeline.splitlines()
    assert first.startswith("fields ")
    assert comment.startswith("# ")
    assert all(line.startswith("| ") for line in others)


@pytest.mark.parametrize("name", QUERIES)
def test_queries_use_only_fields_that_are_logged(name: str) -> None:
    logged = {"message", "level", TRAINING, "errorType"}  # of every line; of Lambda's errors
    for source in ("child/main", "child/supervisor", "child/launch", "child/watch", "aws/outage"):
        text = Path(ROOT, "traingrid", f"{source}.py").read_text()
        logged |= {*re.findall(r"(\w+)=", text), *re.findall(r'"(\w+)"', text)}
    commands = [re.sub(r'"[^"]*"|/[^/]*/', "", line) for line in QUERIES[name] if not line.startswith("#")]
    named = {alias for line in commands for alias in re.findall(r" as (\w+)", line)}
    asked = {word for line in commands for word in re.findall(r"(?<![@\w])[A-Za-z_]\w*", line)}
    assert asked - WORDS - FUNCTIONS - named <= logged
    events = {event for line in QUERIES[name] for event in re.findall(r'event !?= "(\w+)"', line)}
    assert events <= logged
