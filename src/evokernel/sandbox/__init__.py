"""The sandbox: confines the candidate process, and compilers that read a candidate's source, to the resources they need.

A layer that a machine does not support is skipped and reported. `profiles` and `layers` run in the verifier, `apply` in the confined
process.
"""
