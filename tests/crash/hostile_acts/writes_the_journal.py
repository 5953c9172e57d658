"""Writes a forged outcome to the journal, and garbage to the bank."""

from hostile_tools import harm, place

for name, text in (
    ("run/attempts.jsonl", b"{}\n"),
    ("bank.db", b"not a bank"),
    ("run/run.toml", b"budget = 1\n"),
    ("home/notes.txt", b"x"),
):
    try:
        with open(place(name), "r+b", buffering=0) as file:
            file.write(text)
    except OSError:
        continue
    harm(f"{name} was written")
