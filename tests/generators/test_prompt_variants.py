"""Variants of prompt sections: off by default, complete, different from each other, and recorded only where they are shown."""

import pytest
from prompt_cases import DRAFTING, EMPTY, IMPROVE, REFINING, TASK

from evokernel.core.plugins import make_plugin, plugin_names
from evokernel.core.records import Opportunity, Profile
from evokernel.core.state import State
from evokernel.generators.prompt_variants import SECTION_FILES, select_files
from evokernel.generators.prompting import PROMPTS_FOLDER, PromptBuilder

PROFILE = Profile(
    bottleneck="memory",
    summary="It waits.",
    opportunities=(
        Opportunity(cause="no_overlap", gain_us=30.0, line=1, summary="Copy the next tile early."),
        Opportunity(cause="launch", gain_us=2.0, summary="Use fewer launches."),
    ),
)


def refining_context():
    start = IMPROVE.start_point
    profiled = start.model_copy(update={"outcome": start.outcome.model_copy(update={"profile": PROFILE})})
    return IMPROVE.model_copy(update={"start_point": profiled})


def build(builder, state, context, **variants):
    return builder.build_prompt(state, context.model_copy(update={"prompt_variants": variants}))


def test_number_of_variants_is_bounded_and_every_file_exists():
    for backend in plugin_names("backend"):
        variants = PromptBuilder(backend).list_variants()
        assert 2 <= len(variants) <= 4
        assert all(2 <= len(names) <= 4 for names in variants.values())
    for files in SECTION_FILES.values():
        assert all((PROMPTS_FOLDER / file).is_file() for file in files.values())
    assert PromptBuilder("cpp", brief=True).list_variants() == {}


def test_defaults_are_the_prompts_without_variants():
    builder, context = PromptBuilder("cpp"), refining_context()
    defaults = {section: names[0] for section, names in builder.list_variants().items()}
    assert build(builder, REFINING, context, **defaults).text == builder.build_text(REFINING, context)
    assert build(builder, DRAFTING, EMPTY, **defaults).text == builder.build_text(DRAFTING, EMPTY)
    assert select_files({"history": "none such"}) == select_files({})


@pytest.mark.parametrize("section", ["history", "opportunities", "rules"])
def test_variants_differ_and_keep_the_facts(section):
    builder, context = PromptBuilder("cpp"), refining_context()
    texts = [build(builder, REFINING, context, **{section: name}).text for name in builder.list_variants()[section]]
    assert len(set(texts)) == len(texts)
    for text in texts:
        assert builder.plugin.entry_point(TASK) in text
        assert "Copy the next tile early." in text
        assert "no_overlap" in text
        assert "{{" not in text
        assert "{%" not in text


def test_every_history_variant_shows_the_latest_failure_and_its_kernel():
    builder = PromptBuilder("cpp")
    last = DRAFTING.attempts[-1]
    assert last.outcome.failure
    for name in SECTION_FILES["history"]:
        text = build(builder, DRAFTING, EMPTY, history=name).text
        assert last.outcome.failure.reason in text
        assert last.candidate.code.strip() in text


def test_only_sections_that_the_prompt_contains_are_recorded():
    builder = PromptBuilder("cpp")
    chosen = {"history": "latest", "opportunities": "list", "rules": "brief"}
    first = State(task=TASK)
    assert build(builder, first, EMPTY, **chosen).variants == {"rules": "brief"}
    assert build(builder, DRAFTING, EMPTY, **chosen).variants == {"history": "latest", "rules": "brief"}
    assert build(builder, REFINING, refining_context(), **chosen).variants == chosen
    blind = EMPTY.model_copy(update={"include_history": False})
    assert build(builder, DRAFTING, blind, **chosen).variants == {"rules": "brief"}


def test_variants_are_off_by_default(tmp_path):
    settings = {"backend": "cpp", "folder": str(tmp_path)}
    assert make_plugin("generator", "file_exchange", **settings).prompt_variants == {}
    generator = make_plugin("generator", "file_exchange", prompt_variants=True, **settings)
    assert generator.prompt_variants == PromptBuilder("cpp").list_variants()
