"""Value-driven memory for kernel synthesis. Importing this does nothing; see `evokernel.core` for the nouns."""

__version__ = "0.2.0"
