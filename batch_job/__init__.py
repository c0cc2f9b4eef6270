"""The orchestrator's image."""
