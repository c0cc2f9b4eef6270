"""Declarations of claims: sources, dependent code and sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

import conformance.claims  # noqa: F401 - declares the claims
from conformance import not_modelled, pages
from conformance.claim import CLAIMS, Claim
from conformance.sources import model, page, words_of
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
each_claim = each_row("claim", ((claim.name, claim) for claim in CLAIMS))


def test_claim_names_are_unique_and_their_number_is_plausible() -> None:
    names = [claim.name for claim in CLAIMS]
    assert len(names) >= 100
    assert len(names) == len(set(names))


@each_claim
def test_the_code_that_depends_on_a_claim_exists(claim: Claim) -> None:
    assert claim.used_by
    assert [path for path in claim.used_by if not (ROOT / path).exists()] == []


@each_claim
def test_an_installed_source_contains_the_words_that_a_claim_quotes(claim: Claim) -> None:
    assert claim.sources
    for source in claim.sources:
        if source.words:
            assert source.words in words_of(source), source.text
        else:
            assert source.text.startswith("https://")


@each_claim
def test_a_claim_is_one_sentence(claim: Claim) -> None:
    assert claim.sentence.endswith(".")
    assert len(claim.sentence.split()) <= 30


@each_claim
def test_a_phrase_of_a_page_is_short(claim: Claim) -> None:
    assert [source.phrase for source in claim.sources if len(source.phrase.split()) > 12] == []


def test_pages_without_a_phrase_are_listed() -> None:
    claim = replace(CLAIMS[0], sources=(page("https://a.example", "one is true"), page("https://b.example")))
    listed = pages.text([claim])
    assert f"https://a.example\n    {claim.name}: read: “one is true”" in listed
    assert listed.endswith(f"Pages without a phrase, 1 of 2:\n    https://b.example ({claim.name})")


def test_missing_words_in_a_source_are_detected() -> None:
    assert "no such words" not in words_of(model("batch", "CancelJob", "no such words"))


def test_the_page_of_localcloud_lists_behaviours_that_are_not_modelled() -> None:
    page = not_modelled.PAGE.read_text()
    assert page == not_modelled.written(page, CLAIMS), "update it: .venv/bin/python -m conformance --not-modelled"


@pytest.mark.parametrize("page", ["README.md", "docs/status.md"])
def test_a_page_states_how_many_claims_are_met(page: str) -> None:
    documented = sum(1 for claim in CLAIMS if claim.why_documented and not claim.checked_locally)
    unmet = sum(1 for claim in CLAIMS if claim.not_modelled and not claim.why_documented)
    met = len(CLAIMS) - documented - unmet
    counted = f"of {len(CLAIMS)}, localcloud meets {met}, does not model {unmet}, and {documented} are documented only"
    assert counted in " ".join((ROOT / page).read_text().split())
