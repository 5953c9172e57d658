"""Attention without the square of the length: feature maps, recurrences, projected keys."""
