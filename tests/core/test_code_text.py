"""Code is compared by its tokens, whatever its language and layout."""

import pytest

from evokernel.core.code_text import code_ngrams, jaccard_similarity, novelty_ratio, strip_comments, token_ngrams
from evokernel.core.memory_ids import is_note_id, make_note_id, make_trace_id, split_trace_id, task_of_attempt, to_trace_id
from evokernel.core.seeds import seed_from_text


@pytest.mark.parametrize(
    ("code", "plain"),
    [
        ("a; // b\nc; /* d\n e */ f;", "a;  \nc;   f;"),
        ("x = 1\n# comment\ny = 2", "x = 1\n \ny = 2"),
        ("#include <cmath>\n#pragma omp simd\nint a;", "#include <cmath>\n#pragma omp simd\nint a;"),
        ('name = "a/*b"\nc = 1', 'name = "a/*b"\nc = 1'),
    ],
)
def test_comments_are_stripped_in_any_language(code, plain):
    assert strip_comments(code) == plain


def test_layout_and_comments_do_not_count_but_tokens_do():
    code = "float a = b + c; return a * 2;"
    assert code_ngrams(code) == code_ngrams("float a=b+c; // sum\n  return a*2;")
    assert novelty_ratio(code, code) == 0.0
    assert 0 < novelty_ratio(code.replace("2", "3"), code) < 1
    assert novelty_ratio("x y z", "a b c") == 1.0, "code shorter than one n-gram"
    assert code_ngrams("") == {()}


def test_ngrams_are_windows_of_tokens():
    assert token_ngrams("abcd", 3) == {("a", "b", "c"), ("b", "c", "d")}
    assert token_ngrams("ab", 3) == frozenset()


def test_similarity_is_shared_part_of_both():
    assert jaccard_similarity(token_ngrams("abcd", 2), token_ngrams("abcx", 2)) == 0.5
    assert jaccard_similarity(frozenset(), frozenset()) == 1.0


def test_ids_of_traces_and_notes_can_be_taken_apart():
    trace = make_trace_id("run-1", "level1/relu/0")
    note = make_note_id(trace)
    assert (trace, note) == ("run-1:level1/relu/0", "run-1:level1/relu/0/note")
    assert is_note_id(note)
    assert not is_note_id(trace)
    assert to_trace_id(note) == to_trace_id(trace) == trace
    assert split_trace_id(note) == split_trace_id(trace) == ("run-1", "level1/relu/0")
    assert task_of_attempt("level1/relu/0") == "level1/relu"


def test_seeds_depend_on_the_text_only():
    assert seed_from_text("0/relu/0") == 0xB49D544AE0DE38, "recorded runs depend on this value"
    assert seed_from_text("0/relu/0", bits=48) == seed_from_text("0/relu/0") >> 8
    assert seed_from_text("a") != seed_from_text("b")
