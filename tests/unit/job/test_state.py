"""Job states: SageMaker's statuses and the ledger's own states."""

import copy
import json

import botocore.session
import pytest

from traingrid.job.state import FINAL_STATES, UNLAUNCHED_STATES, JobState


def test_the_states_are_those_of_sagemaker_and_two_of_the_ledger() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    statuses = set(model.shape_for("TrainingJobStatus").enum)  # type: ignore[attr-defined]  # of a StringShape
    assert {state.value for state in JobState} == statuses | {"Pending", "Waiting"}
    assert {"Pending", "Waiting"} == UNLAUNCHED_STATES
    assert {"Completed", "Failed", "Stopped"} == FINAL_STATES


def test_a_state_is_written_as_its_value() -> None:
    assert f"{JobState.IN_PROGRESS}" == str(JobState.IN_PROGRESS) == "InProgress"
    assert json.dumps({JobState.FAILED: JobState.FAILED}) == '{"Failed": "Failed"}'


def test_an_unknown_state_keeps_its_value_and_is_not_final() -> None:
    state = JobState("Hibernating")
    assert (state, f"{state}", state.value, state.name) == ("Hibernating",) * 4
    assert state not in FINAL_STATES | UNLAUNCHED_STATES
    assert copy.deepcopy(state) == JobState("Hibernating")
    assert "Hibernating" not in list(JobState)


def test_a_value_that_is_no_text_is_no_state() -> None:
    with pytest.raises(ValueError, match="7 is not a valid JobState"):
        JobState(7)  # type: ignore[arg-type]  # the tested error
