"""The log of a merge shows that it is alive."""

from itertools import count

import numpy as np
import pytest

from training_container.merge.progress import counted


def test_the_images_of_a_step_are_counted_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    times = count(0, 20)  # seconds between two looks at the clock
    batches = [(np.zeros([size, 8, 8, 3]), np.zeros(size)) for size in (64, 64, 64, 64, 10)]
    found = list(counted(batches, "Evaluating job 0", clock=lambda: float(next(times))))
    assert [len(images) for images, _ in found] == [64, 64, 64, 64, 10]
    assert capsys.readouterr().out.splitlines() == [
        "Evaluating job 0 ...",
        "Evaluating job 0: 128 images after 40 s",
        "Evaluating job 0: 256 images after 80 s",
        "Evaluating job 0: 266 images in 120 s",
    ]
