"""Shared by the backends for NVIDIA GPUs: recorded programs, the driver that runs them, timing, ceilings and NVIDIA's tools."""
