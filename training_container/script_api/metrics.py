"""Metrics: prints values in the form in which the log's metrics are found, `name=value`.

Example:
    from trainer import metrics, ranks

    if ranks.current().is_main:
        metrics.report(epoch=3, step=1200, loss=0.25)      # epoch=3 step=1200 loss=0.25

A metric needs its name in the line's field `metrics`, or in `job` of grid.yaml.
"""


def report(**values: float) -> None:
    """Print one line with values, such as epoch, step and loss. Floats have six significant digits.

    Args:
        values: The values by name. A tensor with one element is converted.
    """
    print(" ".join(f"{name}={_text(value)}" for name, value in values.items()), flush=True)


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{float(value):.6g}"
