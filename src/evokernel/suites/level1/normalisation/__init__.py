"""Normalisations, with and without learned weights."""
