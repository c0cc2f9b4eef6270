"""Forms of secrets: the prefixes of keys and tokens, and the names under which programs expect them.

The table has the forms that detect-secrets 1.5 lacks, and the most common ones, because not every function has it.
"""

from __future__ import annotations

import re

_TRUFFLEHOG = "https://github.com/trufflesecurity/trufflehog/tree/main/pkg/detectors/"
_GITLEAKS = "https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml"
_GITHUB = "https://docs.github.com/code-security/secret-scanning/introduction/supported-secret-scanning-patterns"

_SENTRY_DSN = "https://docs.sentry.io/concepts/key-terms/dsn-explainer/"
_AWS_KEYS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html"
_AWS_NAMES = ("ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey", "aws_secret", "AWS_SECRET")
_ASSIGNED = r"\w*[\"']?\s{0,3}[:=,]\s{0,3}[\"']?"
_FORTY = r"(?=[A-Za-z0-9/+]*[a-z])(?=[A-Za-z0-9/+]*[A-Z])[A-Za-z0-9/+]{40}"
"""A secret access key has no form but its 40 characters, which a hash in hexadecimal has, too."""

TOKENS = {
    **{rf"\b{prefix}[0-9A-Z]{{16}}\b": _GITLEAKS for prefix in ("AKIA", "ASIA", "ABIA", "ACCA")},
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY": "https://www.rfc-editor.org/rfc/rfc7468",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{30}": _GITLEAKS,
    **{rf"\b{prefix}_[A-Za-z0-9]{{36}}": _GITLEAKS for prefix in ("ghp", "gho", "ghu", "ghs", "ghr")},
    r"\bgithub_pat_\w{22}": _GITLEAKS,
    r"\bglpat-[A-Za-z0-9_-]{20}": _GITLEAKS,
    r"\bnpm_[A-Za-z0-9]{36}": _GITLEAKS,
    r"\bpypi-AgE[A-Za-z0-9_-]{20}": _GITLEAKS,
    r"\bdckr_[po]at_[A-Za-z0-9_-]{20}": _TRUFFLEHOG + "dockerhub/v2",
    r'"auth"\s*:\s*"[A-Za-z0-9+/]{8,}=*"': "https://docs.docker.com/reference/cli/docker/login/",
    r"\bhf_[A-Za-z0-9]{30}": _TRUFFLEHOG + "huggingface",
    r"\bsk-[A-Za-z0-9_-]{20}": _GITLEAKS,  # OpenAI and Anthropic
    r"\bgsk_[A-Za-z0-9]{40}": _TRUFFLEHOG + "groq",
    r"\bxai-[A-Za-z0-9_]{40}": _TRUFFLEHOG + "xai",
    r"\bnvapi-[A-Za-z0-9_-]{40}": _TRUFFLEHOG + "nvapi",
    r"\bpplx-[A-Za-z0-9]{40}": _GITLEAKS,
    r"\br8_[A-Za-z0-9_-]{37}": _TRUFFLEHOG + "replicate",
    r"\btvly-[A-Za-z0-9-]{30}": _TRUFFLEHOG + "tavily",
    r"\bdapi[a-f0-9]{32}\b": _TRUFFLEHOG + "databrickstoken",
    r"\bAIza[A-Za-z0-9_-]{30}": _GITLEAKS,
    r"\bya29\.[A-Za-z0-9_-]{20}": _GITHUB,
    r"\bGOCSPX-[A-Za-z0-9_-]{20}": _GITHUB,
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10}": _GITLEAKS,
    r"\bhooks\.slack\.com/services/T": _GITLEAKS,
    r"\bdiscord(app)?\.com/api/webhooks/\d+/\w": _TRUFFLEHOG + "discordwebhook",
    r"\bwebhook\.office\.com/webhookb2/\w": _TRUFFLEHOG + "microsoftteamswebhook",
    r"\bwandb_v1_[A-Za-z0-9_]{40}": "https://github.com/wandb/wandb/issues/11614",
    **{rf"\b{scheme}://[0-9a-f]{{32}}@[\w.-]+/\d": _SENTRY_DSN for scheme in ("https", "http")},
    r"\bsntrys_eyJ[A-Za-z0-9_+/=-]{40}": _GITLEAKS,
    r"\bsntryu_[a-f0-9]{64}": _GITLEAKS,
    r"\bapi_org_[A-Za-z]{34}": _GITLEAKS,  # Hugging Face
    r"\blsv2_(pt|sk)_[a-f0-9]{32}": _TRUFFLEHOG + "langsmith",
    **{rf"\b{prefix}-[A-Za-z0-9_-]{{20}}": _GITLEAKS for prefix in ("gldt", "glrt", "glcbt", "glptt", "glsoat")},
    **{rf"\b{prefix}_v1_[a-f0-9]{{64}}": _GITLEAKS for prefix in ("dop", "doo", "dor")},  # DigitalOcean
    **{rf"\b{prefix}\.[A-Za-z0-9_-]{{90}}": _GITLEAKS for prefix in ("hvs", "hvb")},  # Vault
    r"\bPMAK-[a-fA-F0-9]{24}-": _GITLEAKS,
    r"\bglsa_[A-Za-z0-9]{32}_": _GITLEAKS,
    r"\bntn_[A-Za-z0-9]{40}": _GITLEAKS,
    r"\bpul-[a-f0-9]{40}": _GITLEAKS,
    r"\bNRAK-[A-Za-z0-9]{27}": _GITLEAKS,
    r"\bdp\.pt\.[A-Za-z0-9]{43}": _GITLEAKS,
    r"\bAccountKey=[A-Za-z0-9+/]{86}==": _TRUFFLEHOG + "azurestorage",
    **{rf"{name}{_ASSIGNED}{_FORTY}(?![A-Za-z0-9/+])": _AWS_KEYS for name in _AWS_NAMES},
    r"\bBearer [A-Za-z0-9._~+/-]{24}": "https://www.rfc-editor.org/rfc/rfc6750#section-2.1",
}
"""Regular expressions of keys and tokens, with the page that documents the form."""

_ANY_TOKEN = re.compile("|".join(TOKENS))
_STARTS = tuple(start[0] for start in (re.search(r'[\w"-]+', form.removeprefix(r"\b")) for form in TOKENS) if start)
"""The first characters of each form, for which a text is searched fifty times faster."""
PASSWORD_IN_URL = re.compile(r"://[^\s:/?#@]*:[^\s:/?#@]+@")
_LONG_TOKEN = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16}")
_TOKEN = re.compile(r"(.*[_.\-])?token", re.IGNORECASE)
# The variables of the programs that training code calls: of MLflow, Databricks, GitHub, GitLab, Kaggle and others.
_NAME = re.compile(
    r"(.*[_.\-])?(passwords?|passwd|pwd|passphrase|db_pass|secret|secret_key_base"
    r"|(api|access|secret|private|account|auth|client|service|kaggle|wandb|openai)[_-]?key"
    r"|(api|access|auth|bearer|refresh|session|hf|hub|hugging_?face(_hub)?|github|gh|gitlab|slack|wandb|tracking"
    r"|databricks|private|personal|bot|pypi|npm|sentry|kaggle|vault|registry|ngc|comet|neptune|telegram|discord)"
    r"[_-]?token|github[_-]?pat|(slack|discord|teams)[_-]?webhook([_-]?url)?)",
    re.IGNORECASE,
)
# Such as aws_secret_prod, of which the rules above do not know the end.
_AWS_NAME = re.compile(r".*(aws|s3|minio).*(secret|_sk).*", re.IGNORECASE)
_AWS_VALUE = re.compile(_FORTY)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def has_token(text: str) -> bool:
    """Return True if a text contains a key or token."""
    return any(start in text for start in _STARTS) and bool(_ANY_TOKEN.search(text))


def is_name_of_secret(name: str, value: str) -> bool:
    """Return True if a name is that of a secret; a name such as `eos_token`, only with the value of a token."""
    words = _WORD_START.sub("_", name)
    if _AWS_NAME.fullmatch(words) and _AWS_VALUE.fullmatch(value):
        return True
    return bool(_NAME.fullmatch(words) or (_TOKEN.fullmatch(words) and _LONG_TOKEN.search(value)))
