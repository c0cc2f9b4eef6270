"""Sources of claims: installed service models and resource schemas of AWS, and public web pages."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from functools import cache

from botocore.session import get_session


@dataclass(frozen=True)
class Source:
    """Evidence for a claim.

    Attributes:
        text: Its location, for readers.
        words: Text that an installed source contains; empty for a web page, which tests cannot read.
        service: Service of botocore's model; empty for other kinds of sources.
        shape: Operation or shape in the model, or the type of a resource schema.
        phrase: Text that a web page contained when it was read; empty if the claim was not found there.
    """

    text: str
    words: str = ""
    service: str = ""
    shape: str = ""
    phrase: str = ""


def page(url: str, phrase: str = "") -> Source:
    """Return a public web page: AWS documentation, or an issue that quotes a reply from a real account.

    Args:
        phrase: Text of the page that supports the claim, without markup, so that a reader can find it again. It is
            empty if the page could not be read, or was read and does not state the claim.
    """
    return Source(url, phrase=phrase)


def model(service: str, shape: str, words: str) -> Source:
    """Return a part of AWS's service model, as shipped with botocore, that contains `words`.

    A test searches the model for the words, and so detects a botocore update that changes them.
    """
    return Source(f"botocore, {service}, {shape}: “{words}”", words, service, shape)


def schema(resource: str, words: str) -> Source:
    """Return a part of CloudFormation's schema of a resource type, as shipped with cfn-lint, that contains `words`."""
    return Source(f"CloudFormation schema of {resource}: {words}", words, shape=resource)


def words_of(source: Source) -> str:
    """Return the full text of an installed source, without markup and with normalized whitespace."""
    return _model_text(source.service, source.shape) if source.service else _schema_text(source.shape)


@cache
def _model_text(service: str, name: str) -> str:
    described = get_session().get_service_model(service)
    if name in described.operation_names:
        operation = described.operation_model(name)
        errors = ", ".join(error.name for error in operation.error_shapes)
        text = f"{operation.documentation} errors: {errors}"
    else:
        shape = described.shape_for(name)
        members = getattr(shape, "members", {})
        parts = [f"{member}: {of.documentation} {json.dumps(of.metadata)}" for member, of in members.items()]
        text = " ".join([shape.documentation, json.dumps(dict(shape.metadata)), *parts])
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


@cache
def _schema_text(resource: str) -> str:
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # noqa: PLC0415 - takes a second to load

    return json.dumps(PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource).schema)
