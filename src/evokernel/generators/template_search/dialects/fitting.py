"""Numbers that suit the sizes of a stage, as options of decisions."""

from __future__ import annotations


def nearest_option(number: float, options: tuple[str, ...]) -> str:
    """The largest numeric option that is not above a number, or else the smallest."""
    numeric = sorted(int(option) for option in options if option.isdigit())
    return str(max((n for n in numeric if n <= number), default=numeric[0]))


def next_power(number: float) -> int:
    """The smallest power of two that is not below a number."""
    return 1 << max(0, int(number) - 1).bit_length()
