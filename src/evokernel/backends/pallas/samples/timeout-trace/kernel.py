"""Never comes out of Python."""

def kernel(x, weight, bias, features, classes, sharpness):
    while True:
        pass
