"""Amazon EKS backend: training jobs as Indexed Jobs or MPIJobs of a Kubernetes cluster."""
