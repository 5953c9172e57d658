"""Convolutions in one to three dimensions: standard, strided, dilated, grouped, depthwise, pointwise and transposed."""
