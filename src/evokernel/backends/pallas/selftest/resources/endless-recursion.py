# selftest: task=starter/softmax gate=screen reason=trace_error,crash
"""Calls itself for ever."""



def kernel(x):
    return kernel(x)
