"""Executors: where candidates are verified, on this machine, through a command, or on a Ray cluster."""
