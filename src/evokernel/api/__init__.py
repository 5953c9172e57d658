"""The Python API: what `import evokernel as ek` offers. Import names from `evokernel`, not from the modules of this package."""
