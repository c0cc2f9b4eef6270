"""Candidates: the places of a job, each a backend in a Region, and their order."""

from traingrid.job.candidates import Candidate, candidates_of, next_candidate, sentence_part
from traingrid.job.job import Job

EAST, WEST, DUBLIN = "us-east-1", "us-west-2", "eu-west-1"


def test_the_backends_of_the_jobs_own_region_come_before_those_of_its_replicas(roaming: Job) -> None:
    there = roaming.replicas[DUBLIN].model_copy(update={"backends": ("eks", "sagemaker")})
    job = roaming.model_copy(update={"backends": ("eks", "sagemaker"), "replicas": {**roaming.replicas, DUBLIN: there}})
    assert candidates_of(job) == (
        Candidate(EAST, "eks"),
        Candidate(EAST, "sagemaker"),
        Candidate(DUBLIN, "eks"),
        Candidate(DUBLIN, "sagemaker"),
        Candidate(WEST, "sagemaker"),
    )


def test_a_job_without_backends_has_its_regions(roaming: Job) -> None:
    assert candidates_of(roaming) == tuple(map(Candidate, roaming.regions))


def test_candidates_are_tried_in_order_and_cyclically() -> None:
    candidates = [Candidate(EAST, "eks"), Candidate(EAST), Candidate(WEST)]
    assert [next_candidate(candidates, one) for one in candidates] == [*candidates[1:], candidates[0]]
    assert next_candidate([Candidate(EAST)], Candidate(EAST)) == Candidate(EAST)
    assert next_candidate(candidates, Candidate(DUBLIN)) == candidates[0]


def test_a_sentence_names_the_backend_only_if_there_is_a_choice() -> None:
    mixed = [Candidate(EAST, "eks"), Candidate(EAST)]
    assert [sentence_part(one, mixed) for one in mixed] == ["on EKS in us-east-1", "on SageMaker in us-east-1"]
    assert sentence_part(Candidate(WEST), [Candidate(WEST)]) == "in us-west-2"
