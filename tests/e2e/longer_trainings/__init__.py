"""Tests that share a deployment: a package, so that its fixtures end with its last test."""
