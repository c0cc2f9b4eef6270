"""Numbers: the forms of numbers in a report, which are those of the page of `traingrid ui`."""


def number(value: float | None) -> str:
    """Return a number with four significant digits, and large ones with separators; empty for None."""
    if value is None:
        return ""
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def dollars(value: float) -> str:
    """Return dollars; empty for 0, because only jobs with a budget have prices."""
    return f"${value:,.2f}" if value else ""


def hours(value: float) -> str:
    """Return hours with two digits after the point; empty for 0."""
    return f"{value:,.2f}" if value else ""
