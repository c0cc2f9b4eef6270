"""A safeguard less, for a child that is to do wrong."""

from faults.sabotage import SAFEGUARDS


def without_attaching() -> None:
    """Have this process never look whether its training job is there already."""
    SAFEGUARDS["attach"]()
