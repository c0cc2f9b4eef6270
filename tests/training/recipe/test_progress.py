"""The position of a resumed training after a change of the number of ranks."""

from training_container.recipe.progress import Progress


def test_a_changed_number_of_ranks_keeps_the_position_in_the_epoch() -> None:
    before = Progress(epoch=3, step_in_epoch=50, step=350, ranks=2, batch_size=32, loss_sum=5.0, loss_steps=50)
    now = before.rescaled(4, 32, steps_per_epoch=50)
    assert (now.epoch, now.step_in_epoch, now.step, now.ranks) == (3, 25, 175, 4)
    assert (now.loss_sum, now.loss_steps) == (5.0, 50)
    sentence = before.change(4, 32)
    assert sentence is not None
    assert "2 ranks with 32 images each, but this job has 4 ranks" in sentence
    assert "128 images per step instead of 64" in sentence
    assert before.change(2, 32) is None
    assert before.rescaled(2, 32, steps_per_epoch=100) is before


def test_a_stream_of_unknown_length_restarts_its_epoch_with_other_ranks() -> None:
    before = Progress(epoch=3, step_in_epoch=50, step=350, ranks=2, batch_size=32, loss_sum=5.0, loss_steps=50)
    now = before.rescaled(1, 32, steps_per_epoch=None)
    assert (now.step_in_epoch, now.step, now.loss_sum, now.loss_steps) == (0, 300, 0.0, 0)
