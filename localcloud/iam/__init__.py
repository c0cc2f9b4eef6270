"""IAM: who may do what, decided for every call of a role as AWS decides it."""
