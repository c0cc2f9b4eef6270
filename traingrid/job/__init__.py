"""Job: one line as a training job, its data, and the meaning of its failures."""
