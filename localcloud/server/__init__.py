"""Server: starts, filters requests, and installs the services."""
