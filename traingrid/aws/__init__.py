"""AWS: clients, retries, and one module per service."""
