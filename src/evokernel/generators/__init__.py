"""Generators (G): every module or folder of this package is a plug-in that writes candidates, found by name."""
