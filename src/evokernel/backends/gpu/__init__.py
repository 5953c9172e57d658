"""What backends for NVIDIA GPUs share: recorded programs, the driver that runs them, the clock, ceilings and the vendor's tools."""
