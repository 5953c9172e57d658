"""Exits with code 0 through the interpreter's normal shutdown."""

raise SystemExit(0)
