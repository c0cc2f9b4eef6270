"""The report of the measurement as text: loops, parts of a step with their share of its time, and limits."""

from collections.abc import Iterator, Mapping
from typing import Any

from bench.gpu_torch.settings import LIMITS, LOOPS, PARTS


def report(result: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """Return the result as text."""
    settings = result["settings"]
    words = f"{settings['model']}, bfloat16, {settings['batch']} images, {settings['workers']} workers"
    first = f"{words}, {result['backend']}, on {machine.get('gpu', 'CPU')}"
    return "\n".join([first, "", *loop_lines(result), *part_lines(result), *limit_lines(result), *other_lines(result)])


def loop_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each loop."""
    yield f"{'loop':58} images/s   of bare   interval         MiB"
    for row in result["loops"]:
        low, high = row["interval"]
        aim = f"  >= {row['aim']}: {row['met']}" if "aim" in row else ""
        numbers = f"{row['images_per_second']:8.1f}   {row['to_bare']:7.3f}   {low:.3f} to {high:.3f} "
        yield f"{row['loop']:58} {numbers} {row['peak_memory_mib']:6,}{aim}"


def part_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each part of a step of each measured loop."""
    for name, parts in result["parts"].items():
        yield from ("", f"{LOOPS[name]:58}       ms   of a step")
        yield from (
            f"  {words:56} {parts[part]:8.2f}   {parts[part] / parts['step']:9.1%}" for part, words in PARTS.items()
        )
        yield f"  {'the whole step':56} {parts['step']:8.2f}"


def limit_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each limit."""
    limits = result["limits"]
    size = limits["record_bytes"] / 1e6
    yield from ("", f"{'limit':58} images/s   MB/s")
    for name, words in LIMITS.items():
        if name in limits:
            yield f"{words:58} {limits[name]:8.0f} {limits[name] * size:6.0f}"


def other_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the times of the start and of a checkpoint."""
    start, checkpoint = result["start_seconds"], result["checkpoint_seconds"]
    yield from ("", f"From `train` to the imported script: {start['imports']:.1f} s")
    yield f"From `train` to the end of the first step: {start['first_step']:.1f} s"
    yield f"A checkpoint: {checkpoint['save']:.2f} s to write, {checkpoint['load']:.2f} s to verify and load"
    yield f"A checkpoint that a thread writes: a pause of {checkpoint['pause']:.2f} s"
