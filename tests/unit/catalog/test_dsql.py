"""Connections to Aurora DSQL: the token, TLS and the arguments of psycopg."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from traingrid.catalog.dsql import DsqlDialect, login_token
from traingrid.catalog.engines import catalog_url, reader

ENDPOINT = "abc123.dsql.eu-west-1.on.aws"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize(("user", "action"), [("admin", "DbConnectAdmin"), ("reader", "DbConnect")])
def test_a_token_is_signed_for_the_role_and_the_region_of_the_cluster(user: str, action: str) -> None:
    token = urlsplit(f"https://{login_token(ENDPOINT, user)}")
    query = parse_qs(token.query)
    assert (token.hostname, query["Action"]) == (ENDPOINT, [action])
    assert query["X-Amz-Credential"][0].endswith("/eu-west-1/dsql/aws4_request")
    assert query["X-Amz-Expires"] == ["900"]


def test_a_connection_verifies_the_certificate_and_sends_a_new_token(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr(PGDialect_psycopg, "connect", lambda _, **options: sent.update(options))
    dialect = DsqlDialect()
    words, options = dialect.create_connect_args(catalog_url(f"dsql://{ENDPOINT}"))
    dialect.connect(*words, **options)
    assert (sent["host"], sent["user"], sent["dbname"], sent["sslmode"]) == (
        ENDPOINT,
        "admin",
        "postgres",
        "verify-full",
    )
    assert "BEGIN CERTIFICATE" in Path(sent["sslrootcert"]).read_text()
    assert sent["password"].startswith(f"{ENDPOINT}/?Action=DbConnectAdmin")


def test_readers_are_read_only_and_no_savepoint_is_needed() -> None:
    engine = reader(catalog_url(f"dsql://reader@{ENDPOINT}"))
    assert engine.get_execution_options()["postgresql_readonly"] is True
    assert isinstance(engine.dialect, DsqlDialect)
    assert engine.dialect.use_native_hstore is False


def test_the_name_of_a_catalog_has_no_token() -> None:
    assert catalog_url(f"dsql://{ENDPOINT}").render_as_string() == f"dsql+psycopg://admin@{ENDPOINT}/postgres"
