"""A custom training loop on handwritten digits, for any number of ranks. Comments mark the distributed parts.

    traingrid submit examples/scripts/manifest.jsonl

In addition to keras_fit.py, it shows a checkpoint within an epoch when the job is stopped, from which any number of
ranks can continue, and a validation on all ranks.
"""

import dataclasses

import horovod.tensorflow as hvd
import tensorflow as tf
from digits import digits_model, hyperparameters, parsed
from trainer import channels, checkpoints, cluster

STEPS_BETWEEN_STOP_CHECKS = 10  # a check is a small allreduce


def main() -> None:
    options = hyperparameters()
    ranks = cluster.start()  # from here on, this process is a rank with its own device
    train, validation = channels.open("train"), channels.open("validation")  # this rank's shards
    model, optimizer = digits_model(), tf.keras.optimizers.SGD(options.learning_rate * ranks.size, momentum=0.9)
    saved = checkpoints.Checkpoints(ranks.folders.checkpoints, model=model, optimizer=optimizer)
    done = checkpoints.resume(saved)  # now all ranks have rank 0's variables
    steps = cluster.least(train.count // options.batch_size)  # a rank with more steps would wait forever
    if not steps:
        raise ValueError(f"A rank has fewer than {options.batch_size} records. Lower batch_size, or use fewer ranks.")
    here = checkpoints.Progress(ranks=ranks.size, batch_size=options.batch_size)
    # The same position, counted in steps of the current number of ranks.
    here = done.rescaled(ranks.size, options.batch_size, steps) if done else here

    @tf.function(autograph=False)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        # Gradients are averaged over all ranks.
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for epoch in range(here.epoch, options.epochs):
        # Each epoch has its own, reproducible order of records.
        batches = train.records(epoch).map(parsed).batch(options.batch_size).take(steps).skip(here.step_in_epoch)
        loss_sum = tf.zeros([])
        for number, (images, labels) in enumerate(batches):
            if number % STEPS_BETWEEN_STOP_CHECKS == 0 and ranks.stop_requested():
                here = advanced(here, number, loss_sum)
                if ranks.is_main:
                    saved.save(here)
                return
            loss_sum += step(images, labels)
        here = advanced(here, steps - here.step_in_epoch, loss_sum)
        top1 = share_of_hits(model, validation, epoch)
        if ranks.is_main:
            print(f"epoch={epoch + 1} train_loss={here.loss_sum / here.loss_steps:.4f} validation_top1={top1:.4f}")
        here = dataclasses.replace(here, epoch=epoch + 1, step_in_epoch=0, loss_sum=0.0, loss_steps=0)
        if ranks.is_main:
            saved.save(here)
    if ranks.is_main:
        model.export(ranks.folders.model / "1")


def advanced(here: checkpoints.Progress, steps: int, loss_sum: tf.Tensor) -> checkpoints.Progress:
    """Return the progress after more steps; all ranks must call this together, because it averages the loss."""
    return dataclasses.replace(
        here,
        step=here.step + steps,
        step_in_epoch=here.step_in_epoch + steps,
        loss_sum=here.loss_sum + float(hvd.allreduce(loss_sum)),
        loss_steps=here.loss_steps + steps,
    )


def share_of_hits(model: tf.keras.Model, validation: channels.Channel, epoch: int) -> float:
    """Return top-1 over all ranks' records; it reduces sums, so that shards of unequal size are weighted correctly."""
    sums = tf.zeros([2])
    for images, labels in validation.records(epoch).map(parsed).batch(64):
        hits = tf.reduce_sum(tf.cast(tf.argmax(model(images), axis=-1) == labels, tf.float32))
        sums += tf.stack([hits, tf.cast(tf.size(labels), tf.float32)])
    hits, count = hvd.allreduce(sums, op=hvd.Sum).numpy()
    return float(hits / count)


if __name__ == "__main__":
    main()
