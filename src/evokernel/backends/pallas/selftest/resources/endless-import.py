# selftest: task=starter/softmax gate=screen reason=timeout timeout=1.5
"""Its import never ends."""



while True:
    pass
