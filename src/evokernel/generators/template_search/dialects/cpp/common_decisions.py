"""Decisions that many C++ templates share."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of


def has_explicit_vectors(choice: Choice) -> bool:
    """Whether the loops use explicit vectors."""
    return choice.get("simd") == "vec" or has_register_tile(choice)


def has_register_tile(choice: Choice) -> bool:
    """Whether a register tile is used."""
    return choice.get("gemm") == "block" or choice.get("algorithm") == "block"


def is_multi_element(choice: Choice) -> bool:
    """Whether a loop takes several elements at a time, so that a remainder is possible."""
    return has_explicit_vectors(choice) or choice.get("unroll", "1") != "1" or choice.get("gemm") == "tiled"


def is_row_order(choice: Choice) -> bool:
    """Whether memory is read in order, so that decisions about the inner loop apply."""
    return choice.get("order") != "columns"


SIMD = Decision("simd", ("auto", "omp", "vec"), is_row_order)
LANES = Decision("lanes", ("native", "4", "8", "12", "16", "32"), has_explicit_vectors)
UNROLL = Decision("unroll", ("1", "2", "4", "8"), one_of("simd", "auto", "vec"))
TAIL = Decision("tail", ("scalar", "masked", "steps", "assume"), is_multi_element)
MATH = Decision("math", ("libm", "libm64", "poly2", "poly4", "poly5", "poly6"), trait="math")
ACC = Decision("acc", ("float", "double"), is_row_order)
ALIAS = Decision("alias", ("none", "const", "__restrict", "__restrict__", "restrict"), is_row_order)
INDEX = Decision("index", ("int64_t", "int32_t", "uint32_t"), is_row_order)
THREADS = Decision("threads", ("none", "omp"), is_row_order)
ORDER = Decision("order", ("rows", "columns"))
SCRATCH = ("heap", "stack", "static")
ROW_DECISIONS = (SIMD, LANES, UNROLL, TAIL, MATH, ACC, ALIAS, INDEX, THREADS)
STRIP = Decision("strip", ("16", "64", "256", "1024", "4096"), is_row_order, trait="strided")
"""How many neighbouring rows are reduced together if the innermost loop is not reduced."""
NEST_DECISIONS = (SIMD, LANES, UNROLL, TAIL, MATH, ACC._replace(excluded_by="strided"), ALIAS, INDEX, THREADS)
