"""The bank of memories and values, the seeds it starts with, and what an attempt leaves in it."""
