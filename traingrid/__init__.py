"""traingrid: one manifest, a line per training job, every line a Horovod cluster where its data lies."""
