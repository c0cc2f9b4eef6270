"""Pod: provides SageMaker's /opt/ml to a training container in a Kubernetes pod.

A training image expects the files and folders that SageMaker creates, and SageMaker collects the results after it. In a
pod, two containers with the orchestrator's image do both: `prepare` runs before the training container, and `results`
is a sidecar that runs beside it and ends after it.
"""
