"""Test networks and deployments."""
