"""Kubelet: runs the pods of all nodes of a cluster as processes on this machine."""
