"""Not Python."""

def kernel(x, weight, bias, features, classes, sharpness)
    return x
