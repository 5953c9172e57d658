"""Runs the trusted PyTorch reference of a task. Only the verifier and task loading import this package; it needs torch."""
