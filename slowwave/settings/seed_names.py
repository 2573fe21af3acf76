"""Names of settings in the systems that slowwave unites, and what they are called here (SEMANTICS §6.7).

A file of settings may use them: `translated` puts each where ours is. Names without a counterpart are known too, each
with the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from slowwave.errors import UnusableInput

from . import Settings, names_of


@dataclass(frozen=True, slots=True)
class SeedName:
    """A name of another system: the settings here that mean the same, or `why` there is none.

    `as_ours` turns its value into ours, where the two are told differently; `how` says so. It takes values of these
    `kinds`; others are checked as they are.
    """

    ours: tuple[str, ...] = ()
    why: str = ""
    how: str = ""
    as_ours: Callable[[Any], Any] | None = None
    kinds: tuple[type, ...] = (bool, int, float)


def _is(*ours: str) -> SeedName:
    return SeedName(ours)


def _none(why: str) -> SeedName:
    return SeedName(why=why)


def _both(name: str) -> SeedName:
    """A setting of consolidation, which runs after each batch of `ingest` and as a flow."""
    return SeedName((f"ingest.consolidate.{name}", f"consolidate.{name}"))


def _beliefs(name: str) -> SeedName:
    """A setting of pending beliefs, which `ingest` holds and `decay` caps."""
    return SeedName((f"ingest.beliefs.{name}", f"decay.beliefs.{name}"))


def _use(name: str) -> SeedName:
    """A setting of what makes entities important: where they are ranked, weighed by the steward and reported."""
    return SeedName(tuple(f"{section}.use.{name}" for section in ("recall", "steward", "report")))


def _measures(ours: str) -> SeedName:
    """Four numbers, as a table or in this order."""
    names = ("facts", "entities", "predicates", "confidence")
    return SeedName(
        (ours,),
        how=f"a table, or a list: {', '.join(names)}",
        as_ours=lambda numbers: dict(zip(names, numbers, strict=True)) if len(numbers) == len(names) else numbers,
        kinds=(list,),
    )


_FILES = "the text of a prompt is a template in `prompts/templates`, with its version in the ledger"

_SOFIA: Mapping[str, SeedName] = {
    "similarity.flag_cosine": _is("ingest.evaluate.flag_cosine"),
    "similarity.containment": _is("ingest.evaluate.flag_containment"),
    "similarity.length_ratio": _is("ingest.evaluate.length_ratio"),
    "split.thresholds": _is("split.thresholds"),
    "split.cut_distance": _is("split.cut_distance"),
    "split.label_terms": _is("split.label_terms"),
    "split.min_topics": _is("split.min_topics"),
    "split.min_topic_size": _is("split.min_topic_size"),
    "split.proactive_ratio": _is("split.proactive_ratio"),
    "report.stale_days": _is("report.stale_days"),
    "report.stale_max_access": _is("report.stale_max_access"),
    "limbic.beta_deg": _use("degree_weight"),
    "limbic.alpha_cons": _use("days_weight"),
    "limbic.d_max": _use("max_degree"),
    "limbic.temporal_floor": _use("temporal_floor"),
    "limbic.lambda_hourly": _use("decay_per_hour"),
    "limbic.beta_sal": _is("recall.use.importance_weight"),
    "limbic.gamma": _is("recall.use.company_weight"),
    "limbic.rrf_k": _is("recall.rrf_k"),
    "limbic.expansion": _is("recall.expansion"),
}
_X_MEM: Mapping[str, SeedName] = {
    "enable_consolidation": _is("ingest.consolidate.enabled"),
    "consolidation_resolve_threshold": _both("resolve_cosine"),
    "consolidation_text_dedup_threshold": _both("text_dedup"),
    "consolidation_cluster_concurrency": _both("cluster_concurrency"),
    "consolidation_max_existing_matches": _both("max_existing_matches"),
    "consolidation_max_cluster_size": _both("max_cluster_size"),
    "consolidation_pairwise_max_batch": _both("pairwise_max_batch"),
    "consolidation_rerank": _both("rerank"),
    "rerank_multiplier": _both("rerank_multiplier"),
    "enable_artifact_consolidation": _both("artifacts.enabled"),
    "artifact_consolidation_confidence_threshold": _both("artifacts.link_confidence"),
    "artifact_text_dedup_threshold": _both("artifacts.text_dedup"),
}
_ZEPH: Mapping[str, SeedName] = {
    "graph.enabled": _is("ingest.extract.enabled"),
    "graph.extract_model": _is("ingest.llm.extract_model"),
    "graph.extract_provider": _is("ingest.llm.extract_model"),
    "graph.max_entities_per_message": _is("ingest.extract.max_entities_per_message"),
    "graph.max_edges_per_message": _is("ingest.extract.max_facts_per_message"),
    "graph.max_hops": _is("recall.walk.max_hops"),
    "graph.recall_limit": _is("recall.k"),
    "graph.extraction_timeout_secs": _is("ingest.llm.timeout_s"),
    "graph.entity_similarity_threshold": _is("ingest.resolve.entity_similarity"),
    "graph.entity_ambiguous_threshold": _is("ingest.resolve.entity_ambiguous"),
    "graph.use_embedding_resolution": _is("ingest.resolve.use_embedding_resolution"),
    "graph.community_refresh_interval": _is("ingest.extract.community_refresh_interval"),
    "graph.community_summary_concurrency": _is("communities.concurrency"),
    "graph.community_summary_max_prompt_bytes": _is("communities.max_prompt_bytes"),
    "graph.lpa_edge_chunk_size": _none("relations are one array, of which a million take 16 MB: nothing is chunked"),
    "graph.expired_edge_retention_days": _is("decay.expired_edge_retention_days"),
    "graph.max_entities": _is("decay.max_entities"),
    "graph.temporal_decay_rate": _is("recall.walk.temporal_decay_rate"),
    "graph.edge_history_limit": _is("recall.history_limit"),
    "graph.link_weight_decay_lambda": _is("decay.link_weight_decay_lambda"),
    "graph.link_weight_decay_interval_secs": _is("decay.link_weight_decay_interval_secs"),
    "graph.conflict_resolution_strategy": _is("ingest.revise.strategy"),
    "graph.pool_size": _none("LanceDB has no pool of connections; fleets have `fleet.width`"),
    "graph.belief_mem.enabled": _beliefs("enabled"),
    "graph.belief_mem.promote_threshold": _beliefs("promote_threshold"),
    "graph.belief_mem.belief_decay_rate": _beliefs("decay_rate"),
    "graph.belief_mem.max_pending_beliefs": _beliefs("max_pending"),
    "graph.belief_mem.min_entry_prob": _beliefs("min_entry"),
    "graph.belief_mem.max_candidates_per_group": _beliefs("max_per_group"),
    "graph.belief_mem.retrieval_top_k": _is("recall.uncertain_limit"),
    "graph.note_linking.enabled": _is("ingest.extract.note_linking.enabled"),
    "graph.note_linking.similarity_threshold": _is("ingest.extract.note_linking.similarity"),
    "graph.note_linking.top_k": _is("ingest.extract.note_linking.top_k"),
    "graph.note_linking.timeout_secs": _is("ingest.extract.note_linking.timeout_s"),
    "graph.note_linking.link_weight_decay_lambda": _is("decay.link_weight_decay_lambda"),
    "graph.note_linking.link_weight_decay_interval_secs": _is("decay.link_weight_decay_interval_secs"),
    "graph.spreading_activation.enabled": SeedName(
        ("recall.graph",), how="true: `spread`; false: `bfs`", as_ours=lambda on: "spread" if on else "bfs"
    ),
    "graph.spreading_activation.decay_lambda": _is("recall.walk.spread.decay_lambda"),
    "graph.spreading_activation.max_hops": _is("recall.walk.spread.max_hops"),
    "graph.spreading_activation.activation_threshold": _is("recall.walk.spread.activation_threshold"),
    "graph.spreading_activation.inhibition_threshold": _is("recall.walk.spread.inhibition_threshold"),
    "graph.spreading_activation.max_activated_nodes": _is("recall.walk.spread.max_activated_nodes"),
    "graph.spreading_activation.seed_structural_weight": _is("recall.walk.seed_structural_weight"),
    "graph.spreading_activation.seed_community_cap": _is("recall.walk.seed_community_cap"),
    "graph.belief_revision.enabled": _is("ingest.revise.belief_revision"),
    "graph.belief_revision.similarity_threshold": _is("ingest.revise.revision_cosine"),
    "graph.rpe.enabled": _is("ingest.surprise.enabled"),
    "graph.rpe.threshold": _is("ingest.surprise.threshold"),
    "graph.rpe.max_skip_turns": _is("ingest.surprise.max_skip_turns"),
    "llm.providers": _none("a model is named where it is used, as provider/model: [ingest.llm] model"),
    "llm.router.quality_gate": _none("answers are checked against their schema; none is judged by its likeness"),
}
_REFLECTIONS: Mapping[str, SeedName] = {
    "eval.min_confidence": _is("ingest.evaluate.min_confidence"),
    "eval.grounding_ratio": _is("ingest.evaluate.grounding_ratio"),
    "eval.ungrounded_factor": _is("ingest.evaluate.ungrounded_factor"),
    "eval.min_quality": _is("ingest.evaluate.min_quality"),
    "approval.mode": _is("approval.mode"),
    "aspects.weights": _measures("recall.aspects.weights"),
    "aspects.saturation": _measures("recall.aspects.saturation"),
    "chunk.tokens": _is("ingest.extract.chunk_tokens"),
    "chunk.overlap": _is("ingest.extract.chunk_overlap"),
}
_PGMEMORY: Mapping[str, SeedName] = {
    "steward.interval_minutes": _none("when a flow runs is its schedule in `prefect.yaml`, hourly for the steward"),
    "steward.prune_threshold": _is("steward.prune_threshold"),
    "steward.grace_period_hours": _is("steward.grace_period_hours"),
    "steward.decay_half_days": _is("steward.decay_half_days"),
    "steward.merge_threshold": _is("steward.merge_threshold"),
    "steward.batch_size": _is("steward.batch_size"),
    "steward.merge_scan": _is("steward.merge_scan"),
    "steward.merge_neighbors": _is("steward.merge_neighbors"),
    "steward.min_half_life_days": _is("steward.min_half_life_days"),
    "steward.learning_events": _is("steward.learning_events"),
    "pipeline.ingest_min_len": _is("ingest.noise.min_assistant_chars"),
    "pipeline.content_score_pre_gate": _is("ingest.noise.content_gate"),
    "pipeline.content_score_gate": _none(
        "a fact is measured by the gate of its message (`ingest.noise.content_gate`); a second one would do nothing"
    ),
    "pipeline.noise_min_len": _is("ingest.noise.min_chunk_chars"),
    "pipeline.noise_min_alnum_ratio": _is("ingest.noise.min_alnum_ratio"),
    "pipeline.dedup_threshold": _is("ingest.evaluate.reassert_cosine"),
    "pipeline.source_extension_threshold": _is("ingest.evaluate.related_cosine"),
    "pipeline.topic_boundary_threshold": _is("ingest.noise.topic_boundary"),
    "pipeline.max_group_chars": _is("ingest.noise.max_group_chars"),
    "pipeline.quality_protos": _is("ingest.noise.quality_prototypes"),
    "pipeline.noise_protos": _is("ingest.noise.noise_prototypes"),
    "rejection.capacity": _is("ingest.noise.rejection_capacity"),
    "rejection.rebuild_every": _is("ingest.noise.rebuild_every"),
    "rejection.max_protos": _is("ingest.noise.max_learned"),
    "rejection.noise_top_k": _is("ingest.noise.noise_top_k"),
    "pipeline.retrieval_top_k": _is("recall.k"),
    "pipeline.retrieval_max_tokens": _is("mcp.token_budget"),
    "search.min_quality": _is("recall.min_quality"),
    "search.mmr_lambda": SeedName(
        ("recall.diversity",), how="1 less it: 0.7 is a diversity of 0.3", as_ours=lambda share: round(1.0 - share, 9)
    ),
    "prompts.qa": _none(_FILES),
    "prompts.merge": _none(_FILES),
    "prompts.conversation": _none(_FILES),
}
SYSTEMS: Mapping[str, Mapping[str, SeedName]] = MappingProxyType(
    {"sofia": _SOFIA, "x-mem": _X_MEM, "zeph": _ZEPH, "Reflections.ai": _REFLECTIONS, "pgmemory": _PGMEMORY}
)
"""All names of each system, by their path in its file."""
SEED_NAMES: Mapping[str, SeedName] = MappingProxyType(
    {name: seed for names in SYSTEMS.values() for name, seed in names.items()}
)
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "llm": ("ingest.llm", "consolidate.llm", "steward.llm", "communities.llm"),
        "pipeline": ("ingest.noise",),
        "graph": ("ingest.extract",),
        "memory.graph": ("ingest.extract",),
        "extract": ("ingest.extract",),
        "belief_mem": ("ingest.beliefs", "decay.beliefs"),
        "rpe": ("ingest.surprise",),
        "eval": ("ingest.evaluate",),
        "artifacts": ("ingest.consolidate.artifacts", "consolidate.artifacts"),
        "search": ("recall",),
        "recall.bfs": ("recall.walk",),
        "recall.search": ("recall",),
    }
)
"""Tables of the united tree that lie elsewhere here (SEMANTICS §6.7); what is in them has our names, or theirs."""


def _spellings() -> Iterator[tuple[str, str]]:
    """Every path by which a name may be written, with the name."""
    for name in SEED_NAMES:
        room, _, rest = name.partition(".")
        yield name, name
        yield f"memory.{name}", name
        if room == "graph" and "." in rest:
            yield rest, name
        if room == "graph" and rest.startswith("spreading_activation."):
            yield f"recall.{rest}", name
        if room in ("limbic", "search"):
            yield f"recall.{name}", name


SPELLINGS: Mapping[str, str] = MappingProxyType(dict(_spellings()))


def by_own_names(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a file by the names of our groups and settings; what no group knows stays as it is."""
    names = {each: field for field, info in model.model_fields.items() for each in names_of(field, info)}
    own: dict[str, Any] = {}
    for name, value in values.items():
        field = names.get(name, name)
        inner = model.model_fields[field].annotation if field in model.model_fields else None
        if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(value, Mapping):
            value = by_own_names(inner, value)
        if isinstance(value, dict) and isinstance(own.get(field), dict):
            value = _merged(own[field], value, field)
        elif field in own and own[field] != value:
            raise UnusableInput(f"{field} is given twice, once as {name}.", "Leave one of them out.")
        own[field] = value
    return own


def _merged(first: Mapping[str, Any], second: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Two tables as one; raises `UnusableInput` where both say something else of a setting."""
    merged = dict(first)
    for name, value in second.items():
        if isinstance(value, Mapping) and isinstance(merged.get(name), Mapping):
            value = _merged(merged[name], value, f"{path}.{name}")
        elif name in merged and merged[name] != value:
            raise UnusableInput(f"{path}.{name} is given twice.", "Leave one of them out.")
        merged[name] = value
    return merged


def translated(values: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a file with every name of another system put where ours is.

    What the file says by our own name goes before what it says by another. Raises `UnusableInput` for a name that has
    no counterpart, with the reason, and for two names that say different things about one setting.
    """
    left: dict[str, Any] = {}
    placed: dict[str, tuple[str, Any]] = {}
    for path, value in _walk(values):
        targets, converted = _targets(path, value)
        if not targets:
            _put(left, path, value)
        for target in targets:
            _place(placed, target, path, converted)
    for target, (_, value) in placed.items():
        if _get(left, target) is None:
            _put(left, target, value)
    return left


def written_as(values: Mapping[str, Any], ours: str) -> tuple[str, Any]:
    """The path and the value by which a file says something of this setting of ours; ours and None where none does."""
    found = []
    for path, value in _walk(values):
        own: dict[str, Any] = {}
        _put(own, path, value)
        named = by_own_names(Settings, own)
        for is_own, meant in ((True, named), (False, translated(named))):
            if any(_is_about(each, ours) for each in paths_in(meant)):
                found.append((not is_own, path, value))
    return min(found, key=lambda each: each[:2])[1:] if found else (ours, None)


def _is_about(path: str, ours: str) -> bool:
    return path == ours or path.startswith(f"{ours}.") or ours.startswith(f"{path}.")


def paths_in(values: Mapping[str, Any]) -> list[str]:
    """Every path of a file."""
    return [path for path, _ in _walk(values)]


def _walk(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its path; tables without anything in them are values, so that none is lost."""
    for name, value in values.items():
        inside = f"{path}{name}"
        if isinstance(value, Mapping) and value and inside not in SPELLINGS:
            yield from _walk(value, f"{inside}.")
        else:
            yield inside, value


def _targets(path: str, value: Any) -> tuple[tuple[str, ...], Any]:
    """Where the value belongs and what it is there; nowhere, if the name is ours or nobody's."""
    if path in SPELLINGS:
        seed = SEED_NAMES[SPELLINGS[path]]
        if seed.why:
            raise UnusableInput(f"{path} has no counterpart in slowwave: {seed.why}.", "Leave it out (docs/names.md).")
        is_convertible = seed.as_ours is not None and isinstance(value, seed.kinds)
        return (() if path in seed.ours else seed.ours), seed.as_ours(
            value
        ) if seed.as_ours and is_convertible else value
    for group, places in GROUPS.items():
        if path.startswith(f"{group}."):
            return tuple(f"{place}{path[len(group) :]}" for place in places), value
    return (), value


def _place(placed: dict[str, tuple[str, Any]], target: str, path: str, value: Any) -> None:
    """Note what a setting is to be; of the two places for the fading of links the outer one counts (S2-73)."""
    first, _ = placed.setdefault(target, (path, value))
    if placed[target][1] == value:
        return
    if target.startswith("decay.link_weight"):
        placed[target] = min(placed[target], (path, value), key=lambda each: each[0].count("."))
    else:
        raise UnusableInput(f"{first} and {path} say different things about {target}.", "Leave one of them out.")


def _get(values: Mapping[str, Any], path: str) -> Any:
    node: Any = values
    for name in path.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    *tables, last = path.split(".")
    node = values
    for name in tables:
        inner = node.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UnusableInput(f"{name} is a value and a table of settings at once.", "Leave one of them out.")
        node = inner
    node[last] = value
