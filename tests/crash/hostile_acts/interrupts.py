"""Raises a BaseException that is not an Exception."""

raise KeyboardInterrupt
