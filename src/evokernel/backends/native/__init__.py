"""Shared by backends that compile C++ on this machine: the sandboxed compiler, readable errors, source and object checks. Not a plug-in."""
