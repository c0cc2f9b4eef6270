"""Keras' fit() on handwritten digits, for any number of ranks. Comments mark the distributed parts.

    traingrid submit examples/scripts/manifest.jsonl

Each rank reads its shard of the channel, all start from rank 0's weights or its checkpoint, and only rank 0 writes.
"""

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from digits import digits_model, hyperparameters, parsed
from trainer import channels, checkpoints, cluster


def main() -> None:
    options = hyperparameters()
    ranks = cluster.start()  # from here on, this process is a rank with its own device
    train = channels.open("train")  # this rank's shard of the records
    model = digits_model()
    # Gradients are averaged over all ranks, and the learning rate is scaled by their number.
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(options.learning_rate * ranks.size, momentum=0.9))
    model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

    saved = checkpoints.Checkpoints(ranks.folders.checkpoints, model=model, optimizer=optimizer)
    done = checkpoints.resume(saved)  # now all ranks have rank 0's weights
    steps = cluster.least(train.count // options.batch_size)  # a rank with more steps would wait forever
    if not steps:
        raise ValueError(f"A rank has fewer than {options.batch_size} records. Lower batch_size, or use fewer ranks.")
    for epoch in range(done.epoch if done else 0, options.epochs):
        batches = train.records(epoch).map(parsed).repeat().batch(options.batch_size).take(steps)
        history = model.fit(
            batches,
            initial_epoch=epoch,
            epochs=epoch + 1,
            steps_per_epoch=steps,
            callbacks=[hvd.callbacks.MetricAverageCallback()],  # the printed metrics are means over all ranks
            verbose=0,
        ).history
        if ranks.is_main:
            print(f"epoch={epoch + 1} train_loss={history['loss'][0]:.4f} accuracy={history['accuracy'][0]:.4f}")
            step = (epoch + 1) * steps
            saved.save(
                checkpoints.Progress(epoch=epoch + 1, step=step, ranks=ranks.size, batch_size=options.batch_size)
            )
        if ranks.stop_requested():  # for example a spot interruption; the next attempt resumes from the checkpoint
            return
    if ranks.is_main:
        model.export(ranks.folders.model / "1")


if __name__ == "__main__":
    main()
