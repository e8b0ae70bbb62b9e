"""Runs test networks, and deploys contracts."""
