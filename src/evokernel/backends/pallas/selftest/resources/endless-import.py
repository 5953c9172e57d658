# selftest: task=starter/softmax gate=screen reason=timeout timeout=1.5
"""Never ends being imported."""



while True:
    pass
