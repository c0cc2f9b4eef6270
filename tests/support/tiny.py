"""As little as can be trained: hyperparameters for two steps on 8 x 8 pixels."""

TINY = {
    "model": "resnet8",
    "classes": "10",
    "first_label": "0",
    "image_size": "8",
    "epochs": "1",
    "warmup_epochs": "0",
    "steps_per_epoch": "2",
    "batch_size": "8",
    "learning_rate": "0.05",
    "augmentation": "affine",
}
