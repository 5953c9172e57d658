"""Creates empty files to use up the inodes of a disk."""

for number in range(20_000):
    open(f"name-{number}", "wb").close()
