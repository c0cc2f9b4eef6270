"""ECR: repositories, replication, and images that stand for processes of this machine."""
