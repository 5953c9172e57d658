# selftest: task=starter/softmax gate=screen reason=trace_error,crash
"""Writes a large file."""



def kernel(x):
    with open("large", "wb") as file:
        for _ in range(64):
            file.write(bytes(4 << 20))
    return x
