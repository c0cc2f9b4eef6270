"""Kubernetes: a client of the API of an Amazon EKS cluster, on the HTTP library of botocore."""
