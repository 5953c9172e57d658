"""Extracts tasks from a model: records its torch calls, ranks them by time, and writes each as a task file with its sizes and inputs."""
