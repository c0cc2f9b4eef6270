"""Job controller: creates the pods of jobs of batch/v1, and counts how they end."""
