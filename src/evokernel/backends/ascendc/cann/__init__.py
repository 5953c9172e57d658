"""The real way: CANN's own tools build, run and measure a candidate, where a machine has them."""
