"""Evaluation: the metrics of the merged network and of each part on the validation data, as a table and as metrics.

`traingrid merge` names the metrics in the line (traingrid/merge/line.py). This module does not import TensorFlow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TOP1, _LOSS = "validation_top1", "validation_loss"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The validation metrics of a merge.

    Attributes:
        merged: Those of the merged network.
        parts: Those of each part, in their order, with its name.
    """

    merged: Mapping[str, float]
    parts: Sequence[tuple[str, Mapping[str, float]]]

    def lines(self, title: str) -> list[str]:
        """Return the table and, if a part is better than the merged network, a sentence about it.

        Args:
            title: The name of the merged network.
        """
        rows = [(title, self.merged), *self.parts]
        width = max(len(name) for name, _ in rows)
        columns = list(self.merged)
        lines = ["  ".join([" " * width, *columns])]
        for name, metrics in rows:
            cells = [f"{metrics[column]:.4f}".rjust(len(column)) for column in columns]
            lines.append("  ".join([name.ljust(width), *cells]))
        best, metrics = max(self.parts, key=lambda part: part[1][_TOP1])
        if metrics[_TOP1] > self.merged[_TOP1]:
            lines.append(f"The network of {best} is better than the merged one on this validation data.")
        return lines

    def metrics(self) -> str:
        """Return the metrics as `name=value`: those of the merged network, of each part, and of the best part."""
        values = dict(self.merged)
        for number, (_, metrics) in enumerate(self.parts):
            values |= {f"part_{number}_top1": metrics[_TOP1], f"part_{number}_loss": metrics[_LOSS]}
        values["best_part_top1"] = max(metrics[_TOP1] for _, metrics in self.parts)
        return " ".join(f"{name}={value:.6g}" for name, value in values.items())
