"""Builds a run from settings."""
