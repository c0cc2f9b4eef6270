"""IAM: allows or denies every call of a role as AWS does."""
