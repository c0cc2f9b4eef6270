"""Kubernetes: the API of a cluster, in memory, for `kubectl` and for jobs on Amazon EKS."""
