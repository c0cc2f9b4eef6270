"""Contract: the job as SageMaker describes it to a container, and the agreement on its end."""
