"""Maxima and means over sliding windows in one to three dimensions."""
