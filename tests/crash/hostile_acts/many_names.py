"""Files without content use up what a disk has room to name."""

for number in range(20_000):
    open(f"name-{number}", "wb").close()
