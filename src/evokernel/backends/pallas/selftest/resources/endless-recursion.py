# selftest: task=starter/softmax gate=screen reason=trace_error,crash
"""Recurses endlessly."""



def kernel(x):
    return kernel(x)
