"""Queued backend: SageMaker training jobs that AWS Batch creates from a service queue."""
