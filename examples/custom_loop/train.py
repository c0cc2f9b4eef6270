"""A training loop of one's own on handwritten digits, on any number of ranks. Comments mark what makes it distributed.

    traingrid submit examples/custom_loop/manifest.jsonl

Beside what ../keras_fit shows: a checkpoint within the epoch when the job is stopped, and a validation on all ranks.
"""

import argparse

import horovod.tensorflow as hvd
import tensorflow as tf
from trainer import channels, checkpoints, cluster  # type: ignore[import-not-found]  # the training image has it

SCHEMA = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}
STEPS_BETWEEN_STOP_CHECKS = 10  # a check is a small allreduce


def main() -> None:
    options = hyperparameters()
    ranks = cluster.start()  # this process is a rank from here on, with a device of its own
    train, validation = channels.open("train"), channels.open("validation")  # this rank's shares
    model, optimizer = digits_model(), tf.keras.optimizers.SGD(options.learning_rate * ranks.size, momentum=0.9)
    saved = checkpoints.Checkpoints(ranks.folders.checkpoints, model=model, optimizer=optimizer)
    done = checkpoints.resume(saved) or checkpoints.Progress()  # all ranks have rank 0's variables now
    steps = cluster.least(train.count // options.batch_size)  # a rank with more steps would wait for ever

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        # Gradients are averaged over all ranks.
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for epoch in range(done.epoch, options.epochs):
        first = done.step_in_epoch if epoch == done.epoch else 0  # the order of an epoch's records is its own, always
        batches = train.records(epoch).map(parsed).batch(options.batch_size).take(steps).skip(first)
        loss = tf.zeros([])
        for number, (images, labels) in enumerate(batches, start=first):
            if number % STEPS_BETWEEN_STOP_CHECKS == 0 and ranks.stop_requested():
                if ranks.is_main:
                    saved.save(progress(ranks, epoch, number, steps))
                return
            loss = step(images, labels)
        loss, top1 = float(hvd.allreduce(loss)), share_of_hits(model, validation, epoch)
        if ranks.is_main:
            print(f"epoch={epoch + 1} train_loss={loss:.4f} validation_top1={top1:.4f}")
            saved.save(progress(ranks, epoch + 1, 0, steps))
    if ranks.is_main:
        model.export(ranks.folders.model / "1")


def progress(ranks: cluster.Cluster, epoch: int, step_in_epoch: int, steps: int) -> checkpoints.Progress:
    """Return where the training stands."""
    step = epoch * steps + step_in_epoch
    return checkpoints.Progress(epoch=epoch, step_in_epoch=step_in_epoch, step=step, ranks=ranks.size)


def share_of_hits(model: tf.keras.Model, validation: channels.Channel, epoch: int) -> float:
    """Return top-1 over all ranks' records: sums are reduced once, so shares need not be equal."""
    sums = tf.zeros([2])
    for images, labels in validation.records(epoch).map(parsed).batch(64):
        hits = tf.reduce_sum(tf.cast(tf.argmax(model(images), axis=-1) == labels, tf.float32))
        sums += tf.stack([hits, tf.cast(tf.size(labels), tf.float32)])
    hits, count = hvd.allreduce(sums, op=hvd.Sum).numpy()
    return float(hits / count)


def hyperparameters() -> argparse.Namespace:
    """Return the job's hyperparameters, which come as `--name value`; those of the grid that it has no use for pass."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=16, help="of one rank")
    parser.add_argument("--learning_rate", type=float, default=0.05, help="of one rank")
    return parser.parse_known_args()[0]


def parsed(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a record's image, [8, 8, 1] in 0..1, and its digit."""
    fields = tf.io.parse_single_example(record, SCHEMA)
    image = tf.ensure_shape(tf.io.decode_png(fields["image/encoded"], channels=1), [8, 8, 1])
    return tf.cast(image, tf.float32) / 255, fields["image/class/label"]


def digits_model() -> tf.keras.Model:
    """Return a small convolutional network."""
    return tf.keras.Sequential(
        [
            tf.keras.Input([8, 8, 1]),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )


if __name__ == "__main__":
    main()
