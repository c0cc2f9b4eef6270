"""Form of a token: the constants that its client and its server share."""

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
"""The signed header with the name of the cluster."""
