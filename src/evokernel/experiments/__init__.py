"""From settings to a run."""
