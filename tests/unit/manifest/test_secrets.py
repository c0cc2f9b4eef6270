"""Secrets: values and files are refused by the forms of keys and tokens, and no others."""

import sys
from pathlib import Path

import pytest

from traingrid.manifest import secrets
from traingrid.manifest.secrets import is_secret, secret_in

SECRETS = {
    "hub_token": "hf_" + "EXAMPLE" * 4 + "abcdef",
    "HF_TOKEN": "x",
    "note": "hf_" + "a" * 34,
    "WANDB_API_KEY": "x",
    "MLFLOW_TRACKING_PASSWORD": "x",
    "GITHUB_PAT": "x",
    "SLACK_WEBHOOK": "x",
    "OPENAI_KEY": "x",
    "database": "postgresql://me:hunter2@host/db",
    "remote": "https://:hunter2@host/db",
    "chat": "https://hooks.slack.com/services/" + "T00000000/B00000000/" + "X" * 24,
    "header": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "a": "github_pat_" + "1" * 30,
    "b": "sk-ant-" + "x1" * 20,
    "DATABRICKS_TOKEN": "x",
    "GH_TOKEN": "x",
    "MLFLOW_TRACKING_TOKEN": "x",
    "KAGGLE_KEY": "x",
    "KEY_PASSPHRASE": "x",
    "wandbApiKey": "x",
    "MY_SERVICE_TOKEN": "0123456789abcdef0123456789abcdef",
    "groq": "gsk_" + "a1" * 26,
    "xai": "xai-" + "a1" * 40,
    "nvidia": "nvapi-" + "a1" * 32,
    "docker": "dckr_pat_" + "a1" * 13 + "b",
    "google": "AIza" + "Sy" + "a1" * 16 + "b",
    "discord": "https://discord.com/api/webhooks/" + "1" * 18 + "/" + "a1" * 34,
    "teams": "https://x.webhook.office.com/webhookb2/" + "a1" * 20,
    "databricks": "dapi" + "0123456789abcdef" * 2,
    "request": "Bearer " + "a1" * 16,
}
AWS = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
SECRETS |= {
    "sentry": "https://" + "0123456789abcdef" * 2 + "@o12.ingest.de.sentry.io/345",
    "own sentry": "http://" + "0123456789abcdef" * 2 + "@sentry.example.com/2",
    "sentry of an organisation": "sntrys_eyJ" + "pYXQiOjE2" * 9,
    "sentry of a user": "sntryu_" + "ab" * 32,
    "run": "wandb_v1_" + "a1B2c3" * 12,
    "langsmith": "lsv2_pt_" + "ab" * 16 + "_" + "ab" * 5,
    "organisation": "api_org_" + "aB" * 17,
    "runner": "glrt-" + "a1" * 10,
    "droplet": "dop_v1_" + "ab" * 32,
    "vault": "hvs." + "a1" * 48,
    "postman": "PMAK-" + "ab" * 12 + "-" + "ab" * 17,
    "grafana": "glsa_" + "a1" * 16 + "_" + "ab" * 4,
    "notion": "ntn_" + "a1" * 23,
    "pulumi": "pul-" + "ab" * 20,
    "relic": "NRAK-" + "A1" * 13 + "B",
    "doppler": "dp.pt." + "a1" * 21 + "b",
    "azure": "DefaultEndpointsProtocol=https;AccountKey=" + "a1" * 43 + "==",
    "aws_secret_prod": AWS,
    "S3SecretValue": AWS,
    "minio_secret": AWS,
    "profile": f"aws_secret_access_key = {AWS}",
    "json": f'{{"SecretAccessKey": "{AWS}"}}',
    "export": f"export AWS_SECRET_ACCESS_KEY={AWS}",
}
DETECTED = {
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "mail": "SG." + "a" * 22 + "." + "b" * 43,
    "pay": "sk_live_" + "0123456789abcdefghijklmn",
}
PLAIN = {
    "tokenizer": "bert-base-uncased",
    "max_tokens": "512",
    "token_dropout": "0.1",
    "eos_token": "<|endoftext|>",
    "cls_token": "true",
    "tokenizer_key": "bert",
    "model": "APEXNetLargeWithAttention",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/a@sha256:" + "ab" * 32,
    "url": "https://host:8080/path?x=a@b",
    "data": "s3://bucket/key:with:colons@and/more",
    "address": "8.8.8.8:5000 and more text",
    "monkey": "banana",
    "stop_token": "<|im_end|>",
    "first_token": "beginning_of_the_whole_sequence",
    "cache_key": "0123456789abcdef0123456789abcdef01234567",
    "aws_secret_name": "prod/training/database-credentials-0001",
    "aws_secret_arn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-AbCdEf",
    "aws_secret_version": "0123456789abcdef0123456789abcdef01234567",
    "s3_data": "s3://bucket/secretsanta/" + "aB3" * 14,
    "role": "arn:aws:iam::123456789012:role/" + "TrainingExecutionRole0123456789ABCDEFGHI",
    "digest": "sha1=0123456789abcdef0123456789abcdef01234567",
    "config": "eyJscmF0ZSI6IDAuMSwgImRlcHRoIjogNSwgIm5hbWUiOiAiYSJ9",
    "layers": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZn",
    "issue": "https://sentry.io/organizations/acme/issues/1234567890/",
    "clone": "https://git@github.com/acme/model.git",
    "wandb_run": "https://wandb.ai/acme/project/runs/0123abcd",
    "hvs": "hvs.json",
    "author": "Ann Bearer of the long and winding roads",
}


@pytest.mark.parametrize("name", [*SECRETS, *DETECTED])
def test_a_secret_is_recognised_by_its_name_or_form(name: str) -> None:
    assert is_secret(name, (SECRETS | DETECTED)[name])


@pytest.mark.parametrize("name", PLAIN)
def test_other_values_are_not_secrets(name: str) -> None:
    assert not is_secret(name, PLAIN[name])


@pytest.mark.parametrize("name", SECRETS)
def test_the_most_common_ones_are_recognised_without_the_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "detect_secrets"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    secrets._detectors.cache_clear()
    try:
        assert secrets._detectors() == ()
        assert is_secret(name, SECRETS[name])
    finally:
        secrets._detectors.cache_clear()


def test_the_shortest_secret_is_recognised() -> None:
    token = "eyJhIjoxfQ.e30.x"
    assert len(token) == secrets._MIN_LENGTH
    assert is_secret("note", token)


def test_no_file_of_the_examples_holds_a_secret() -> None:
    examples = Path(__file__).resolve().parents[3] / "examples"
    found = {path.name: secret_in(path.read_text().splitlines()) for path in examples.rglob("*.py")}
    assert len(found) > 10
    assert set(found.values()) == {None}
