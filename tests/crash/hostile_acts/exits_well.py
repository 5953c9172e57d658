"""Exits with code 0."""

import os

os._exit(0)
