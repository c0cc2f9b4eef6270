"""object-detection: the published rules of the algorithm based on MXNet.

Hyperparameters: https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection-api-config.html (as of
https://github.com/awsdocs/amazon-sagemaker-developer-guide/blob/main/doc_source/object-detection-api-config.md).
Channels and instances: https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection.html.
"""

from __future__ import annotations

from traingrid.algorithms import images
from traingrid.algorithms.algorithm import GPU_FAMILIES, Algorithm
from traingrid.algorithms.images import choice, fraction, positive, text

OBJECT_DETECTION = Algorithm(
    name="object-detection",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection-api-config.html",
    hyperparameters=(
        *images.SHARED,
        choice("base_network", "vgg-16", "resnet-50"),
        positive("image_shape", least=300),
        text("freeze_layer_pattern"),
        positive("label_width"),
        fraction("learning_rate", "least"),
        fraction("lr_scheduler_factor", "least", "greatest"),
        fraction("momentum", "least"),
        fraction("nms_threshold", "least"),
        choice("optimizer", "sgd", "adam", "rmsprop", "adadelta"),
        fraction("overlap_threshold", "least"),
        fraction("weight_decay", "least", "greatest"),
    ),
    channels=images.image_channels("annotation"),
    instance_families=GPU_FAMILIES,
    rules=(images.one_format("annotation"), images.replicated_pipes),
)
