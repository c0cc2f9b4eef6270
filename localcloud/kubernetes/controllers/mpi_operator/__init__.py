"""MPI operator: the operator of Kubeflow, version 0.8.2, which makes a launcher Job and worker pods of an MPIJob."""
