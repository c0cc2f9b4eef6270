"""SageMaker backend: training jobs that a process creates directly."""
