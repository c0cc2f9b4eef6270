"""Service jobs of AWS Batch: SageMaker training jobs that wait in a queue for capacity.

moto 5.2.5 supports neither service environments nor their queues and jobs.
"""
