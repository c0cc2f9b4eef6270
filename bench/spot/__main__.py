"""`make bench-spot`: compares the cost of traingrid's spot decision with the lower bound and with other rules.

With `TRACES=FOLDER`, over the public traces in a folder instead of synthetic capacity that is fitted to them.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.machine import description
from bench.report import Result, report
from bench.size import IS_TINY
from bench.spot.cases import JOBS, MAIN, Case, Places, cases, figures, synthetic_places, traced_places
from bench.spot.plot import write_plot
from bench.spot.rules import RULES

_PROCESSES = 2
_places: dict[str, Places] = {}
Row = dict[str, Any]


def main() -> None:
    """Simulate, print and write the result; without traces, also the plot of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, help="folder of the public traces")
    parser.add_argument("--jobs", type=int, default=JOBS, help="the number of jobs of each case")
    options = parser.parse_args()
    folder = options.traces
    machine, chosen = description(()), list(cases())
    with ProcessPoolExecutor(_PROCESSES, initializer=_prepare, initargs=(folder,)) as pool:
        rows = list(pool.map(partial(_figures, options.jobs), chosen, chunksize=1))
    print(table(rows))
    report(
        "spot-traces" if folder else "spot",
        results(rows),
        machine=machine,
        against=f"traingrid.job.spot_decision over {'public traces' if folder else 'fitted synthetic capacity'}",
        details={},
        more={"rows": rows},
    )
    if not folder and not IS_TINY:
        write_plot()


def results(rows: Sequence[Row]) -> list[Result]:
    """Return the figures with their aims; each is the worst of the deadlines that it names."""
    main_rows = [row for row in rows if (row["hours"], row["restart_minutes"]) == MAIN]

    def worst(places: str, is_in: Callable[[float], bool]) -> float:
        chosen = [row for row in main_rows if row["places"] == places and is_in(row["deadline"])]
        return max(float(row["rules"]["traingrid"]["to_bound"]) for row in chosen)

    better = max(_to_better(row) for row in main_rows if row["places"] == "Region")
    late = 1000 * max(row["rules"]["traingrid"]["late"] / row["jobs"] for row in rows)
    figures_and_aims = [
        ("one Region, deadline of 1.25 x duration", worst("Region", lambda ratio: ratio == 1.25), 1.18, "x bound"),
        ("one Region, from 1.5 on", worst("Region", lambda ratio: ratio >= 1.5), 1.12, "x bound"),
        ("one Region, to the better of both rules", better, 1.0, "x"),
        ("one zone, from 1.25 on", worst("zone", lambda ratio: ratio >= 1.25), 1.2, "x bound"),
        ("three Regions, from 1.25 on", worst("three Regions", lambda ratio: ratio >= 1.25), 1.05, "x bound"),
        ("three Regions, at 1.1", worst("three Regions", lambda ratio: ratio == 1.1), 1.05, "x bound"),
        ("late jobs of 1,000, in the worst of all cases", late, 0, "jobs"),
    ]
    return [
        Result(id=f"S{number}", what=text, measured=round(value, 3), comparison="<=", aim=aim, unit=unit)
        for number, (text, value, aim, unit) in enumerate(figures_and_aims, start=1)
    ]


def table(rows: Sequence[Row]) -> str:
    """Return the costs as shares of the bound, with the late jobs in brackets, as a table for a terminal."""
    names = list(RULES)
    lines = ["cost as a share of the lower bound, and late jobs in brackets"]
    lines += [f"  {name}: {measured.title}" for name, measured in RULES.items()]
    for row in rows:
        if row["deadline"] == rows[0]["deadline"]:
            setting = f"{row['hours']} h, restart {row['restart_minutes']} min"
            lines.append(f"\n{setting}, {row['places']}, {row['jobs']} jobs")
            lines.append("  deadline  bound " + "".join(f"{name:>18}" for name in names))
        cells = "".join(f"{_cell(row['rules'].get(name)):>18}" for name in names)
        lines.append(f"  {row['deadline']:8.2f}  {row['bound']:.3f} {cells}")
    return "\n".join(lines)


def _cell(of_rule: Mapping[str, float] | None) -> str:
    if of_rule is None:
        return "-"
    return f"{of_rule['to_bound']:.3f}" + (f" ({of_rule['late']})" if of_rule["late"] else "")


def _to_better(row: Row) -> float:
    rules = row["rules"]
    return float(rules["traingrid"]["cost"] / min(rules["uniform_progress"]["cost"], rules["greedy"]["cost"]))


def _prepare(folder: Path | None) -> None:
    _places.update(traced_places(folder) if folder else synthetic_places())


def _figures(jobs: int, case: Case) -> Row:
    return figures(case, _places[case.places], jobs)


if __name__ == "__main__":
    main()
