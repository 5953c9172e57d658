"""The dashboard: web pages that show runs and memory banks, read-only."""
