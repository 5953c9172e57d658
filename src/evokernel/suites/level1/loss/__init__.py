"""Losses: two or three tensors become one number."""
