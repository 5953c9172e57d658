"""Runs the trusted PyTorch reference of a task at a size: only the judge's side and task loading import this, and it needs torch."""
