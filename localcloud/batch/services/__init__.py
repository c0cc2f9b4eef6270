"""Service jobs of AWS Batch: SageMaker training jobs that wait in a queue until there is room for them.

moto 5.2.5 knows neither service environments nor these queues nor their jobs.
"""
