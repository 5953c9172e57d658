"""Attention over the channels and places of an image."""
