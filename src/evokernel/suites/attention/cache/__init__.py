"""Attention of new tokens to keys and values that are kept from earlier ones."""
