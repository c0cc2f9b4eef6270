"""Datasets that register themselves: markers in data buckets, their registration, and the manifests of rules."""
