"""Artifacts: exports the trained network as a SavedModel, with a report."""

import json
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from training_container.recipe.config import Config
from training_container.trainer.data import augment


def export(model: tf.keras.Model, config: Config, folder: Path, report: Mapping[str, object]) -> None:
    """Export the trained network as a SavedModel, with report.json, and labels.json if classes have names.

    The network is in the folder `1`, because TensorFlow Serving and SageMaker's TensorFlow endpoints look for versions.
    Its signature takes `images` [batch, height, width, 3] in 0..255 of any size, and returns `probabilities` and
    `classes`. The numbers of classes start at first_label, as in the training records.
    """
    any_size = tf.TensorSpec([None, None, None, 3], tf.float32, name="images")

    @tf.function(autograph=False, input_signature=[any_size])
    def serve(images: tf.Tensor) -> dict[str, tf.Tensor]:
        cropped = augment.crop_middle(images) if augment.crops(config) else images  # the same as in validation
        resized = augment.round_to_bytes(tf.image.resize(cropped, [config.image_size, config.image_size]))
        probabilities = tf.nn.softmax(model(tf.cast(resized, tf.float32), training=False))
        return {"probabilities": probabilities, "classes": tf.argmax(probabilities, axis=-1) + config.first_label}

    servable = tf.Module()
    servable.model_variables = model.variables
    servable.serve = serve
    tf.saved_model.save(servable, str(folder / "1"), signatures={"serving_default": serve})
    names = report.get("class_names")
    if isinstance(names, tuple) and names:
        labels = dict(enumerate(names, start=config.first_label))
        (folder / "labels.json").write_text(json.dumps(labels, indent=2) + "\n", encoding="utf-8")
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
