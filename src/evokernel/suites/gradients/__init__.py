"""Backward passes of forty operators of the other suites; `suite.toml` lists them, and autograd defines them."""
