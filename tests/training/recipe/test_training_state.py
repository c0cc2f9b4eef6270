import pytest

from training_container.recipe.config import Config
from training_container.recipe.progress import Progress
from training_container.recipe.training_state import TrainingState

SETTINGS = {"epochs": 10, "warmup_epochs": 0, "learning_rate": 0.1, "lr_power": 1, "batch_size": 8}


def state(ranks: int = 2, batches: int | None = 4, **settings: float) -> TrainingState:
    return TrainingState(Config(**SETTINGS | settings), ranks, lambda: batches)


def test_steps_images_and_losses_are_counted_and_reset_by_an_epoch() -> None:
    going = state(accumulate_steps=3)
    assert going.steps_per_epoch == 2  # one step of three batches, and one of a single batch
    going.count_steps(3)
    going.add_loss(2.0)
    going.count_steps(1)
    going.add_loss(1.0)
    done = going.progress
    assert (done.step, done.step_in_epoch, done.images, done.loss_sum, done.loss_steps) == (2, 2, 64, 3.0, 2)
    going.count_epoch(None)
    assert (going.progress.epoch, going.progress.step, going.progress.step_in_epoch, going.progress.loss_sum) == (
        1,
        2,
        0,
        0.0,
    )


def test_the_rate_follows_the_steps() -> None:
    going = state(batches=4)
    rates = []
    for _ in range(5):
        rates.append(going.rate)
        going.count_steps(1)
        going.add_loss(1.0)
    assert rates == pytest.approx([0.2, 0.195, 0.19, 0.185, 0.18])


def test_training_ends_early_when_top_1_does_not_improve() -> None:
    going = state(early_stop_epochs=2)
    for top1, is_best, is_over in ((0.5, True, False), (0.4, False, False), (0.6, True, False), (0.6, False, False)):
        going.count_epoch(top1)
        assert (going.is_best, going.is_over) == (is_best, is_over)
    going.count_epoch(0.1)
    assert going.is_over
    assert going.progress.best == 0.6


def test_without_early_stop_training_ends_with_its_epochs() -> None:
    going = state(epochs=2)
    going.count_epoch(0.5)
    assert not going.is_over
    going.count_epoch(0.4)
    assert going.is_over


def test_the_same_ranks_continue_from_their_position() -> None:
    saved = Progress(epoch=3, step=14, step_in_epoch=2, ranks=2, batch_size=8, loss_sum=5.0, loss_steps=2)
    going = state()
    assert going.resume(saved) == "Continuing after step 14, in epoch 4."
    assert going.progress == saved


@pytest.mark.parametrize(("ranks", "batches", "steps"), [(2, 4, 4), (1, 8, 8), (1, None, 8)])
def test_an_epoch_that_was_trained_and_not_validated_is_validated_first(
    ranks: int, batches: int | None, steps: int
) -> None:
    going = state(ranks=2)
    for _ in range(4):
        going.count_steps(1)
        going.add_loss(1.0)
    going.record_trained_epoch()
    saved = Progress.from_json(going.progress.to_json())
    again = state(ranks=ranks, batches=batches)
    assert again.resume(saved).startswith("Continuing after step 4: epoch 1 is trained and is validated first.")
    done = again.progress
    assert (done.awaits_validation, done.loss_sum, done.loss_steps) == (True, 4.0, 4)
    if batches:
        assert (done.step, done.step_in_epoch) == (steps, steps)
    again.count_epoch(0.5)
    assert (again.progress.epoch, again.progress.step_in_epoch, again.progress.awaits_validation) == (1, 0, False)


def test_another_number_of_ranks_rescales_the_rate_and_is_reported() -> None:
    saved = Progress(epoch=3, step=14, step_in_epoch=2, ranks=2, batch_size=8)
    going = state(ranks=1, batches=8)
    sentence = going.resume(saved)
    assert "The checkpoint is of 2 ranks with 8 images each, but this job has 1 rank with 8 each" in sentence
    assert "with the learning rate of 1 rank" in sentence
    assert (going.progress.epoch, going.progress.step_in_epoch) == (3, 4)
    same = state(ranks=2, batches=4)
    same.resume(saved)
    assert going.rate == pytest.approx(same.rate / 2)


def test_a_resumed_stream_has_its_previous_length() -> None:
    saved = Progress(epoch=3, step=14, step_in_epoch=2, ranks=2, batch_size=8)
    stream, counted = state(batches=None), state(batches=4)
    assert stream.steps_per_epoch is None
    stream.resume(saved)
    counted.resume(saved)
    assert (stream.steps_per_epoch, stream.rate) == (4, counted.rate)


@pytest.mark.parametrize(
    ("saved", "words"),
    [(None, "There is no checkpoint yet"), (Progress(step=12), "The last good checkpoint is of step 12")],
)
def test_a_divergence_is_reported_with_its_step_and_last_checkpoint(saved: Progress | None, words: str) -> None:
    going = state()
    going.count_steps(1)
    going.add_loss(1.0)
    going.count_steps(1)
    sentence = str(going.diverged(f"The loss is nan in {going.place(before=1)}", saved))
    assert sentence.startswith(f"The loss is nan in step 1 (epoch 1): training diverged. {words}. Reduce learning_rate")
    going.count_epoch(None)
    assert going.place() == "step 2 (epoch 1)"
    going.count_steps(1)
    assert going.place() == "step 3 (epoch 2)"
