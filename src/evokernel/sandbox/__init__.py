"""The jail: what keeps a candidate's process, and a compiler that reads its text, from everything but their work.

Layers that a machine does not offer are left out, and said so. `plans` and `layers` are the judge's side, `enter` that of the process.
"""
