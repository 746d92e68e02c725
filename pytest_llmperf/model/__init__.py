"""Frozen values: what the floors above pass to each other. Standard library only."""
