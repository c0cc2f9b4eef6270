"""Entry point of a child without the attach safeguard."""

from verification.faults.disabled_safeguards import SAFEGUARDS


def without_attaching() -> None:
    """Disable this process's check for an existing training job."""
    SAFEGUARDS["attach"]()
