"""Builds a run from settings and takes it from its first attempt to its report; also the self-test and offline bundles."""
