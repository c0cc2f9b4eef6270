"""Child: the program of a Batch child, which launches and watches the training job of one line."""
