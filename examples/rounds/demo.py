"""`make demo-rounds`: four Regions, each with other digits, train one model in rounds, and one job on all data.

AWS is localcloud, and its clients are the real ones. The table has each round with the validation_top1 of its global
model and of each Region's model on the same data; the last line compares the best one with the job that has all data.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.digits.demo import another_terminal, own_folder, print_text, timed, wait_for_ctrl_c
from examples.rounds.split_classes import write_split
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.grid import Grid
from traingrid.api.rounds_timeline import rounds_state, timeline
from traingrid.cli.rounds_table import best_sentences, model_phrase, print_rounds
from traingrid.rounds.timeline import TOP1, best_round
from traingrid.text import byte_size
from verification.checkout.deploy import deploy

if TYPE_CHECKING:
    from traingrid.api.submission import Submission
    from traingrid.rounds.rounds import RoundsProgress

ROOT = Path(__file__).resolve().parents[2]
GRID_FILE = Path(__file__).parent / "grid.yaml"
DATA, WORK = ROOT / "build/digits", ROOT / "build/demo-rounds"
PAGE = ROOT / "demo-rounds.html"
NAME, ROUNDS, EPOCHS = "digits", 3, 3
POLL_SECONDS = 0.5


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 if the best global model is better than the model of each Region, and 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m examples rounds", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="keep the local AWS running until Ctrl-C")
    keep = parser.parse_args(arguments).keep
    started = time.monotonic()
    work = own_folder(WORK)
    with LocalCloud(Settings(data_dir=work, lambda_retry_delays_seconds=(1, 2))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        timed("bootstrap and deploy with the CDK CLI", lambda: deploy(cloud.endpoint_url, GRID_FILE, work))
        plane = ControlPlane.of(GRID_FILE)
        spec, all_data = timed("split the digits, and upload each part", lambda: upload_parts(plane, work / "digits"))
        print_text(another_terminal(cloud.endpoint_url, GRID_FILE, work))
        grid = Grid(plane)
        in_one_place = grid.submit([one_place_line(spec, all_data)], "one-place.jsonl")
        grid.rounds(spec, report=Progress(plane).show, poll=POLL_SECONDS)
        is_better = show(plane, top1_of(in_one_place))
        grid.report(f"rounds:{NAME}", PAGE)
        print_text(f"{time.monotonic() - started:.0f} s in all; {PAGE.name} has the rounds and their curves")
        if keep:
            wait_for_ctrl_c()
    return 0 if is_better else 1


class Progress:
    """Prints each new global model."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._printed = plane, 0

    def show(self, progress: RoundsProgress) -> None:
        """Print the global models since the last call."""
        if len(progress.state.models) > self._printed:
            for view in timeline(self._plane, progress.state)[self._printed : len(progress.state.models)]:
                print_text(f"round {view.number}: {model_phrase(view)}")
            self._printed = len(progress.state.models)


def upload_parts(plane: ControlPlane, folder: Path) -> tuple[dict[str, Any], str]:
    """Upload a part of the digits to each Region, and all of them to one; return the specification and that folder."""
    regions = list(plane.deployment.grid.regions)
    campaigns = sorted(path for path in DATA.iterdir() if path.is_dir())
    counts = write_split(campaigns, [folder / region / "part" for region in regions])
    write_split(campaigns, [folder / "all"])
    lines = []
    for region, count in zip(regions, counts, strict=True):
        print_text(f"{region}: {count} training records")
        lines.append(
            {"region": region, "s3_uri": str(upload_folder(plane.deployment, folder / region / "part", region))}
        )
    spec = {
        "name": NAME,
        "lines": lines,
        "epochs": EPOCHS,
        "rounds": ROUNDS,
        "outer": {"kind": "diloco", "learning_rate": 0.7, "momentum": 0.6},
        "merge": {"region": regions[-1]},
    }
    return spec, str(upload_folder(plane.deployment, folder / "all", regions[0]))


def one_place_line(spec: dict[str, Any], all_data: str) -> dict[str, Any]:
    """Return the line of a job that trains as many epochs on all data in one Region."""
    region = spec["lines"][0]["region"]
    return {"region": region, "s3_uri": all_data, "name": "one-place", "hp.epochs": ROUNDS * EPOCHS}


def top1_of(submission: Submission) -> float | None:
    """Wait for the end of a submission with one job, and return its validation_top1."""
    while not submission.status().ended:
        time.sleep(POLL_SECONDS)
    return submission.jobs[0].metrics.get(TOP1)


def show(plane: ControlPlane, one_place: float | None) -> bool:
    """Print the rounds and the comparison; return True if the best global model is better than each Region's model."""
    views = timeline(plane, rounds_state(plane, NAME))
    print_rounds(NAME, views, "table")
    for sentence in best_sentences(NAME, views):
        print_text(sentence)
    best = best_round(views)
    local = max(view.best_region_top1 or 0.0 for view in views)
    global_top1 = best.top1 or 0.0 if best else 0.0
    crossed = byte_size(sum(view.bytes_across for view in views))
    alone = max(part.top1 or 0.0 for part in views[0].parts)
    print_text(f"{TOP1}: {global_top1:.4f} in rounds, {alone:.4f} of the best Region alone after one round")
    print_text(f"all data in one place: {one_place:.4f}" if one_place else "all data in one place: the job has failed")
    print_text(f"{crossed} of weights crossed a border, and no data")
    return global_top1 > local
