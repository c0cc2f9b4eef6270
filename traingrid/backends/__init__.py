"""What runs a training job: one small protocol, one module per service."""
