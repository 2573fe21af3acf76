"""Settings: every number has a range, every word is one of a list, and no name is lost without a word."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from talk import ROOT

import slowwave.common.settings
from apps.cli import app
from apps.configuration import load_settings, parse_settings
from scripts.names_page import COMMANDS
from slowwave.common.errors import SlowwaveError, UnknownName, UnusableInput
from slowwave.common.settings import SHARED, Group, IngestSettings, Settings
from slowwave.common.settings.seed_names import GONE, SEED_NAMES, SPELLINGS

MODELS = [
    model
    for _, model in inspect.getmembers(slowwave.common.settings, inspect.isclass)
    if issubclass(model, Group) and model is not Group
]
FREE_TEXT = {
    "model", "extract_model", "resolve_model", "summarize_model", "answer_model", "embedder", "address",
    "quality_prototypes", "noise_prototypes", "owner",
}  # fmt: skip
"""Settings that may hold any text; every other word is one of a list."""


def fields() -> Iterator[tuple[str, str, Any]]:
    """Every setting of every group."""
    for model in MODELS:
        for name, info in model.model_fields.items():
            yield model.__name__, name, info


def value_at(settings: BaseModel, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = value[part] if isinstance(value, Mapping) else getattr(value, part)
    return value


def tree(path: str, value: Any) -> dict[str, Any]:
    """The tables of a file in which a path has a value."""
    told: Any = value
    for part in reversed(path.split(".")):
        told = {part: told}
    return told


def another(path: str, default: Any) -> Any:
    """A value of the setting that is allowed and not its default."""
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    if isinstance(default, float) or default is None:
        return {"ingest.evaluate.flag_cosine": 0.86, "ingest.evaluate.reassert_cosine": 0.93}.get(
            path, (default or 0.6) * 0.99 if (default or 0.6) > 0.3 else (default or 0.0) + 0.05
        )
    if isinstance(default, tuple):
        return ["something"]
    return {"recency": "confidence", "auto": "manual", "bfs": "spread"}.get(default, "quotes")


def test_every_number_has_a_lower_and_an_upper_end() -> None:
    seen = 0
    for model, name, info in fields():
        parts = [info.annotation, *get_args(info.annotation)]
        if int not in parts and float not in parts:
            continue
        seen += 1
        assert any(isinstance(rule, Ge | Gt) for rule in info.metadata), (model, name)
        assert any(isinstance(rule, Le | Lt) for rule in info.metadata), (model, name)
    assert seen > 100


def test_every_word_is_one_of_a_list_unless_it_may_be_any_text() -> None:
    for model, name, info in fields():
        holds_text = info.annotation is str or (
            get_origin(info.annotation) is not dict and str in get_args(info.annotation)
        )
        assert not holds_text or name in FREE_TEXT, (model, name)
    assert any(get_origin(info.annotation) is Literal for *_, info in fields())


@pytest.mark.parametrize("name", ["ab\ncd", "Ana <system>", "Ana\u200bLima", "Ana\x1b", "{Ana}", 'Ana" role="system'])
def test_an_owner_with_markup_or_hidden_characters_is_refused_with_what_to_leave_out(name: str) -> None:
    with pytest.raises(UnusableInput, match=r"a name on one line without markup.* leave out "):
        parse_settings(tree("ingest.owner", name), "slowwave.toml")


@pytest.mark.parametrize("name", ["", "Ana Lima", "José O'Neil-Paz, Jr.", "Ж. Иванова"])
def test_an_owner_with_a_name_is_taken(name: str) -> None:
    assert IngestSettings(owner=name).owner == name


# Names of other systems


@pytest.mark.parametrize("name", [name for name, seed in SEED_NAMES.items() if seed.ours])
def test_a_name_of_another_system_sets_what_it_means_here(name: str) -> None:
    seed = SEED_NAMES[name]
    default = value_at(Settings(), seed.ours)
    given: Any = {"session": 9} if isinstance(default, dict) else another(seed.ours, default)
    if seed.as_ours is not None:
        given = {"enabled": True, "weights": [1, 2, 3, 4], "saturation": [9, 8, 7, 0.5]}.get(name.split(".")[-1], 0.6)
    wanted = seed.as_ours(given) if seed.as_ours else given
    for spelling in [each for each, known in SPELLINGS.items() if known == name]:
        settings = parse_settings(tree(spelling, given), "slowwave.toml")
        now = value_at(settings, seed.ours)
        told = now.model_dump() if isinstance(now, BaseModel) else now
        assert (list(told) if isinstance(told, tuple) else told) == wanted, spelling
        assert now != default


@pytest.mark.parametrize("name", [name for name, seed in SEED_NAMES.items() if seed.why])
def test_a_name_without_a_counterpart_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UnusableInput, match=re.escape(SEED_NAMES[name].why)):
        parse_settings(tree(name, 1), "slowwave.toml")


def test_our_own_name_goes_before_another_and_two_others_must_agree() -> None:
    own = parse_settings({"graph": {"recall_limit": 4}, "recall": {"k": 5}}, "f")
    assert own.recall.k == 5
    with pytest.raises(UnusableInput, match=r"different things about recall\.k"):
        parse_settings({"graph": {"recall_limit": 4}, "pipeline": {"retrieval_top_k": 5}}, "f")
    assert parse_settings({"retrieval": {"k": 4}, "recall": {"k": 5}}, "f").recall.k == 5
    both = parse_settings({"retrieval": {"k": 4}, "recall": {"diversity": 0.5}}, "f")
    assert (both.recall.k, both.recall.diversity) == (4, 0.5)


@pytest.mark.parametrize(("place", "source"), SHARED.items())
def test_a_table_that_several_flows_need_is_in_the_file_once_and_holds_for_each(place: str, source: str) -> None:
    usual = Settings()
    for name, now in value_at(usual, place):
        path = f"{source}.{name}"
        if (name == "enabled" and place.endswith(".gate")) or isinstance(now, BaseModel | Mapping):
            continue
        try:
            told = parse_settings(tree(path, another(path, now)), "f")
        except UnusableInput:  # a rule between settings, or a word that is one of others
            continue
        assert value_at(told, f"{place}.{name}") == value_at(told, path) != now
        with pytest.raises(UnknownName, match=re.escape(f"Did you mean {path!r}?")):
            parse_settings(tree(f"{place}.{name}", now), "f")


# Names that nobody knows, or nobody any more


@pytest.mark.parametrize("path", GONE)
def test_a_setting_that_is_gone_is_refused_with_what_there_is_instead(path: str) -> None:
    with pytest.raises(UnusableInput, match=f"no setting {re.escape(path)} any more: {re.escape(GONE[path])}.*Leave"):
        parse_settings(tree(path, 1), "slowwave.toml")
    table, _, name = path.rpartition(".")
    assert name not in type(value_at(Settings(), table)).model_fields


def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'ingest\.extract\.window_messages'\?"):
        parse_settings(tree("ingest.extract.window_mesages", 3), "slowwave.toml")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"similarity": {"flag_cosine": 3}},
            "my.toml: ingest.evaluate.flag_cosine must be less than or equal to 1, not 3.",
        ),
        ({"llm": {"max_calls": -4}}, "my.toml: ingest.llm.max_calls must be greater than or equal to 0, not -4."),
        ({"recall": {"k": "many"}}, 'my.toml: recall.k must be a valid integer, not "many".'),
        ({"recall": {"graph": "x"}}, "my.toml: recall.graph must be 'none', 'bfs' or 'spread', not \"x\"."),
        ({"recall": 5}, "my.toml: recall must be a table, not 5."),
        (
            {"split": {"thresholds": {"project": 0}}},
            "my.toml: split.thresholds.project must be greater than or equal to 1, not 0.",
        ),
        (
            {"ingest": {"llm": {"max_usd": 2e6}}},
            "my.toml: ingest.llm.max_usd must be less than or equal to 1000000, not 2,000,000.",
        ),
        (
            {"recall": {"walk": {"spread": {"activation_threshold": 0.9, "inhibition_threshold": 0.1}}}},
            "my.toml: [recall.walk.spread] activation_threshold (0.9) must be below inhibition_threshold (0.1).",
        ),
    ],
)
def test_a_value_out_of_range_is_told_in_plain_words_by_our_name(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UnusableInput) as refused:
        parse_settings(values, "my.toml")
    assert refused.value.message == told


def test_a_variable_of_the_environment_that_is_nearly_ours_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOWWAVE_SERVICE_HOST", "10.0.0.1")  # as Kubernetes sets for a service of that name
    assert load_settings() == Settings()
    monkeypatch.setenv("SLOWWAVE_STOER", "x")
    with pytest.raises(UnknownName, match="Did you mean 'SLOWWAVE_STORE'"):
        load_settings()


# Defaults

SEEDS: dict[str, Any] = {
    "eval": {"min_confidence": 0.5, "grounding_ratio": 0.6, "ungrounded_factor": 0.7, "min_quality": 0.85},
    "approval": {"mode": "auto"},
    "aspects": {"weights": [0.40, 0.25, 0.20, 0.15], "saturation": [25, 12, 8, 1.0]},
    "chunk": {"tokens": 500, "overlap": 50},
    "steward": {
        "prune_threshold": 0.1, "grace_period_hours": 24, "decay_half_days": 90, "merge_threshold": 0.88,
        "batch_size": 500, "merge_neighbors": 5, "min_half_life_days": 7, "learning_events": 50,
    },
    "pipeline": {
        "ingest_min_len": 80, "content_score_pre_gate": 0.35, "noise_min_len": 40, "noise_min_alnum_ratio": 0.40,
        "dedup_threshold": 0.92, "source_extension_threshold": 0.75, "topic_boundary_threshold": 0.65,
        "max_group_chars": 2048, "quality_protos": [], "noise_protos": [],
    },
    "rejection": {"capacity": 500, "rebuild_every": 25, "max_protos": 150, "noise_top_k": 3},
}  # fmt: skip
"""What evaluation, aspects and the upkeep of quality are set to in the systems that have them."""
OTHERWISE: Mapping[str, Any] = {
    "steward": {"merge_scan": 200},
    "pipeline": {"retrieval_top_k": 5, "retrieval_max_tokens": 2048},
    "search": {"min_quality": 0.05, "mmr_lambda": 0.7},
}
DECIDED = ("0014-scores-and-batches.md", "0026-facts-and-passages.md")
"""Where it is said what is set otherwise here, and why."""


def test_defaults_of_evaluation_aspects_and_upkeep_are_those_of_their_systems() -> None:
    usual = Settings()
    assert parse_settings(SEEDS, "slowwave.toml") == usual
    assert (usual.ingest.noise.exchange_window, usual.ingest.evaluate.flag_cosine) == (50, 0.85)


@pytest.mark.parametrize(("table", "name"), [(table, name) for table, named in OTHERWISE.items() for name in named])
def test_a_default_that_is_not_that_of_its_system_is_told_in_a_decision(table: str, name: str) -> None:
    assert parse_settings({table: {name: OTHERWISE[table][name]}}, "slowwave.toml") != Settings()
    decided = "".join((ROOT / "docs/decisions" / page).read_text(encoding="utf-8") for page in DECIDED)
    assert f"`{table}.{name}`" in decided


# Rules between settings


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ingest": {"resolve": {"entity_ambiguous": 0.9}}}, "must be below"),
        ({"steward": {"merge_threshold": 0.95}}, "must hold"),
        ({"ingest": {"evaluate": {"flag_cosine": 0.9}}}, "must hold"),
        ({"consolidate": {"resolve_cosine": 0.86}}, "must be at least"),
        ({"belief_mem": {"promote_threshold": 0.5, "min_entry_prob": 0.5}}, "must be above"),
    ],
)
def test_rules_between_settings_hold(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SlowwaveError, match=words):
        parse_settings(values, "slowwave.toml")


# Commands of other systems


def test_every_command_of_another_system_has_a_counterpart_that_exists() -> None:
    group: Any = typer.main.get_command(app)
    tools = set(re.findall(r"^\| `(\w+)\(", (ROOT / "docs/mcp.md").read_text(encoding="utf-8"), re.MULTILINE))
    flows = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "flows").glob("*.py"))
    for commands in COMMANDS.values():
        for each in commands:
            assert each.commands or each.note, each.seed
            for words in each.commands:
                found = group
                for word in words.split():
                    found = found.commands[word]
            for flow in each.flows:
                assert f'@flow("{flow}"' in flows, each.seed
            assert set(each.tools) <= tools, each.seed
