"""C++ on the processor this runs on, through one C entry point derived from the task's signature."""

from evokernel.backends.cpp.backend import CppBackend as plugin

__all__ = ["plugin"]
