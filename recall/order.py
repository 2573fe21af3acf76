"""The order of recall: from the scores of search to places, stage by stage.

Two channels see different things: BM25 finds the words of a message and of the turn that it answers, vectors find the
meaning of the single statements in it; the words that a statement shares with the query tell which of them answers. A
convex combination of the scores beats rank fusion, because it keeps how much better one hit is than the next (Bruch,
Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 42(1), 2023).

Score of search → fused with the walk along relations → less for facts about others than the people named, and of
other projects than the one named → more for facts of the time that is named → × use of the entities (S0-26) → × the
current conversation (S2-74) → sorted again (T22) → spread over what differs → the first k. Every stage changes the
score by one factor or one sum, so the parts of a fact tell how its score came about: fused = search + weight × graph,
and score = ((fused, else search) × about × scope + period) × limbic × episode × diversity.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log1p
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from slowwave.common.comparison.similarity import Vectors
from slowwave.common.lexicon.statement_words import FUNCTION_WORDS
from slowwave.common.text import normalise_name, prose
from slowwave.common.words import stems

SPREAD = 0.25
"""Chosen among 1, 0.5, 0.25, 0.1 and 0 on the development conversations, read by a model: of the facts of the messages
that answer a question it brings .81 and .90 into 3,000 characters, 1 brings .64 and .78. Evidence R@10 is the same."""
OVERLAP_WEIGHT = 1.0
"""As much as each channel. Of .5 and 1, 1 brings more of what answers into 3,000 characters (.906, .916), once facts
have general words to be asked by."""
QUOTED = 0.65
"""A quotation has more words than a fact that was read, and shares more by chance. Of 1, .75, .65 and .5: evidence R@10
.782, .782, .788, .788; in 3,000 characters .879, .879, .879, .870."""
MATCH = 0.5
"""Share of a question's words. Of 0, .2, .35, .5, .7 and 1: more brings more of what a model's facts answer (.895 to
.917 of the evidence), less more of what rules read word for word (.858 to .836)."""
WEAK = 1.1
"""Best match below which it is weak: words, meaning and overlap count at most 1 each. On the development conversations,
read by rules, 5 in 100 questions that have an answer there have no better match, and of those about another
conversation 71 and 75 in 100."""
OUTLINE = "outline"
"""The role of a passage that is a line of an outline."""
UNLIKELY = "Nothing that is stored matches the question well: the answer may not be known."


def is_quotation(statement: str) -> bool:
    """Whether a fact is the words of a message, which nobody read: it ends with the marks of a quotation."""
    return statement.endswith('"')


def is_weak(match: float | None) -> bool:
    """Whether the best match of a question is weak; of what was not searched (None) nothing is said."""
    return match is not None and match < WEAK


@dataclass(frozen=True, slots=True)
class Evidence:
    """One message that supports a fact, or a message without facts (`fact_id` None).

    `cosine` is the fact's to the query, `overlap` the share of the query's words that the fact says, in [0, 1].
    """

    fact_id: str | None
    message_id: str
    cosine: float
    overlap: float = 0.0


@dataclass(frozen=True, slots=True)
class RankedFact:
    """One place in the order of recall; `sources` are its messages, the one that has most of the words first.

    `parts` say how the score came about: words, meaning and overlap, which fact of its message it is, and so on.
    `former` is the fact that has ended and matched, where it is that one which brought the place here (`recall.ended`).
    """

    fact_id: str | None
    sources: tuple[str, ...]
    cosine: float
    lexical: float
    score: float
    parts: Mapping[str, float] = field(default_factory=dict, compare=False)
    former: str | None = None


def lexical_scores(bm25: Mapping[str, float], full: float = 0.0) -> dict[str, float]:
    """BM25 of the full-text hits by message → each as a share of the best one, or of `full` if that is more; in [0, 1].

    Without `full` the best message counts as a match even where it shares nothing but a name that all messages say.
    """
    best = max(full, *bm25.values(), 0.0) if bm25 else 0.0
    return {message: score / best if best > 0.0 else 0.0 for message, score in bm25.items()}


def full_match(question: str, texts: int) -> float:
    """The BM25 from which on a text is a full match: MATCH of the question's content words, each in one text of all.

    A word that one of n texts says adds some ln(1 + n) to its score (Robertson and Zaragoza, "The Probabilistic
    Relevance Framework: BM25 and Beyond", 2009).
    """
    return MATCH * max(len(stems(question)), 1) * log1p(texts)


def message_scores(
    lexical: Mapping[str, float],
    near: Iterable[tuple[str, float]],
    more: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """Messages with their scores, best first, ties by id.

    `near` names a message with its cosine for each vector, of the message or of a fact of it, that was compared; `more`
    is added to the scores of some.
    """
    closest: dict[str, float] = {}
    for message, cosine in near:
        closest[message] = max(cosine, closest.get(message, 0.0))
    scores = {m: lexical.get(m, 0.0) + closest.get(m, 0.0) + more.get(m, 0.0) for m in {*lexical, *closest}}
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))


def with_neighbours(lexical: Mapping[str, float], beside: Iterable[tuple[str, str]], share: float) -> dict[str, float]:
    """The lexical scores, with those of turns that stand beside matching ones: `share` of the neighbour's, if more.

    `beside` are pairs of messages (matching, beside it); `share` in [0, 1].
    """
    raised = dict(lexical)
    for matching, message in beside:
        raised[message] = max(raised.get(message, 0.0), share * lexical.get(matching, 0.0))
    return raised


def word_overlaps(query: str, statements: Sequence[str]) -> list[float]:
    """For each statement the share of the query's content words that it says, in [0, 1]; rare words weigh more.

    A word weighs ln(1 + n / statements that say it), n statements in all; one that none of them says weighs as one that
    a single statement says.
    """
    stem_sets = [stems(statement) for statement in statements]
    counts = Counter(stem for words in stem_sets for stem in words)
    weights = {stem: log1p(len(stem_sets) / max(counts[stem], 1)) for stem in stems(query)}
    whole = sum(weights.values())
    if not whole:
        return [0.0] * len(stem_sets)  # rounded, since the words of a set come in any order
    return [round(sum(weights.get(stem, 0.0) for stem in words) / whole, 12) for words in stem_sets]


def rank_facts(evidence: Iterable[Evidence], lexical: Mapping[str, float]) -> list[RankedFact]:
    """Facts, and messages without facts, in the order of recall; ties by id.

    Score = lexical score of its best message + max(cosine, 0) + OVERLAP_WEIGHT · overlap. The n-th
    fact of one message counts 1/n^SPREAD: the first places name different messages, and a message that says several
    things is not cut to one of them.
    """
    by_fact: dict[tuple[str | None, str], list[Evidence]] = {}
    for row in evidence:
        by_fact.setdefault((row.fact_id, "" if row.fact_id is not None else row.message_id), []).append(row)
    whole = sorted((_recalled(rows, lexical) for rows in by_fact.values()), key=_place)
    seen: Counter[str] = Counter()
    spread = []
    for fact in whole:
        seen[fact.sources[0]] += 1
        nth = seen[fact.sources[0]]
        score = fact.score / nth**SPREAD
        parts = {**fact.parts, "place": float(nth), "search": score}
        spread.append(RankedFact(fact.fact_id, fact.sources, fact.cosine, fact.lexical, score, parts))
    return sorted(spread, key=_place)


def _recalled(rows: Sequence[Evidence], lexical: Mapping[str, float]) -> RankedFact:
    """One fact from all the messages that support it, scored as if it were the first of its best message."""
    sources = tuple(sorted({row.message_id for row in rows}, key=lambda name: (-lexical.get(name, 0.0), name)))
    words = lexical.get(sources[0], 0.0)
    cosine, overlap = max(row.cosine for row in rows), max(row.overlap for row in rows)
    score = words + max(cosine, 0.0) + OVERLAP_WEIGHT * overlap
    parts = {"words": words, "meaning": cosine, "overlap": overlap}
    return RankedFact(rows[0].fact_id, sources, cosine, words, score, parts)


def _place(fact: RankedFact) -> tuple[float, str, str]:
    return (-fact.score, fact.fact_id or "", fact.sources[0])


# Passages: what a message says about a question, and whether facts say it already (recall falls back on messages). A
# fact is one thing that a message says; a passage is the piece of the message itself, for what no fact holds: what an
# assistant advised, a number in passing, the words that were used.


WHOLE = 300
"""Characters up to which a message is shown whole; of a longer one the sentences around the best are."""
COVERED_SHARE = 0.8
"""Share of a passage's content words from which on facts that are shown say it already."""
LOOKED_AT = 20_000
"""Characters of a message in which its best piece is looked for."""
_SENTENCE = re.compile(r"(?<=[.!?])(?<!^\d\.)(?<!\s\d\.)(?<!\s\d\d\.)\s+|(?<=[。！？])|\n+")  # not after "3." of a list
_PASSAGE_WORD = re.compile(r"\w+")


def passage_of(question: str, content: str, limit: int = WHOLE) -> str:
    """The piece of a message that says most about a question: whole sentences of at most `limit` characters.

    The sentence that shares most words with the question, then those before and after it, in turn, as long as they fit;
    the beginning where no sentence shares a word. A single sentence that is longer is cut from a little before the
    first word that it shares, with an ellipsis.
    """
    text = prose(content[:LOOKED_AT]).strip()
    if len(text) <= limit:
        return " ".join(text.split())
    sentences = [" ".join(part.split()) for part in _SENTENCE.split(text) if part.strip()]
    overlaps = word_overlaps(question, sentences)
    best = max(range(len(sentences)), key=lambda place: (overlaps[place], -place))
    first, last, size = best, best + 1, len(sentences[best])
    is_growing = True
    while is_growing:
        is_growing = False
        for place in (last, first - 1):
            if 0 <= place < len(sentences) and size + 1 + len(sentences[place]) <= limit:
                size += 1 + len(sentences[place])
                first, last = min(first, place), max(last, place + 1)
                is_growing = True
    piece = " ".join(sentences[first:last])
    return piece if len(piece) <= limit else _cut(piece, stems(question), limit)


def _cut(sentence: str, words: frozenset[str], limit: int) -> str:
    shared = (match.start() for match in _PASSAGE_WORD.finditer(sentence) if stems(match.group()) & words)
    start = max(min(next(shared, 0) - limit // 4, len(sentence) - limit), 0)
    start = sentence.find(" ", start) + 1 if start and " " in sentence[start : start + limit // 4] else start
    piece = sentence[start : start + limit - 2]
    piece = piece.rsplit(" ", 1)[0] if " " in piece[limit // 2 :] and start + limit - 2 < len(sentence) else piece
    return ("…" if start else "") + piece + ("…" if start + len(piece) < len(sentence) else "")


def only_asks(passage: str) -> bool:
    """Whether more than half of a passage are questions: who asks says little."""
    sentences = [part.strip() for part in _SENTENCE.split(passage) if part.strip()]
    questions = [sentence for sentence in sentences if sentence.endswith("?")]
    return 2 * len(questions) > len(sentences)


def is_covered(passage: str, statements: Iterable[str], share: float = COVERED_SHARE) -> bool:
    """Whether these statements, of the same message, say at least `share` of the passage's content words."""
    content = stems(passage)
    known = {stem for statement in statements for stem in stems(statement)}
    return len(content & known) >= share * len(content)


# Where a block ends, and what it takes of a whole time.


PAYS, QUOTED_PAYS = 0.5, 0.4
"""Share of the best score below which a line hardly ever answers, and below which a quotation does: of what nobody
read, scores say less. Of a conversation that a model read, blocks of 3,000 characters hold .941 of the evidence, and
ended here with 1,810 characters as much; at .55 .929, at .6 .905. Of two that nobody read .878 in 2,950 characters,
.876 in 2,400 at .4, and .837 in 1,920 at .5. The first lines are no exception: the second to fifth of lower scores
hold no evidence."""


WEAK_PAYS = 0.8
"""The same where even the best match is weak: scores are close to each other then, and half of the best keeps all."""


def lines_that_pay(scores: Sequence[float], are_quoted: Sequence[bool], *, are_weak: bool = False) -> list[int]:
    """The places of those of these scores, best first, that are likely to be of an answer."""
    read = WEAK_PAYS if are_weak else PAYS
    least = [(QUOTED_PAYS if is_quoted else read) * scores[0] for is_quoted in are_quoted]
    return [place for place, score in enumerate(scores) if score >= least[place]]


def spread_over_time(times: Sequence[float]) -> list[int]:
    """The places of matches, best first, in an order whose every beginning is spread over the time that they are of.

    `times` are those of the matches, best first. The order of time is halved again and again: first comes the best of
    all, then the best of the halves without one, then of the quarters, and so on.
    """
    by_time = np.argsort(np.asarray(times, dtype=np.float64), kind="stable")
    parts, picked = [by_time], list[int]()
    taken = np.zeros(len(times), dtype=bool)
    while len(picked) < len(times):
        for place in sorted(int(part.min()) for part in parts if not taken[part].any()):
            taken[place] = True
            picked.append(place)
        parts = [half for part in parts for half in np.array_split(part, 2) if len(half)]
    return picked


# Diversity: a fact like an earlier one adds little. Maximal marginal relevance (Carbonell and
# Goldstein, SIGIR 1998) picks one after the other what is relevant and new. We take likeness off as a share of the
# score instead of as an amount, so that the scale of the scores does not matter.


def diversified(order: Sequence[RankedFact], vectors: Vectors, diversity: float, k: int) -> list[RankedFact]:
    """The first `k`, each unlike those before it; `vectors` (n, d) are their unit rows, zeros where there is none.

    A fact keeps 1 − diversity × the largest cosine to one picked before as a share of its score; kept scores never rise
    from one to the next. With 0 nothing changes. Ties keep their order.
    """
    if not diversity:
        return list(order[:k])
    relevance = np.array([place.score for place in order])
    shares, is_left = np.ones(len(relevance)), np.ones(len(relevance), dtype=bool)
    picked: list[RankedFact] = []
    for _ in range(min(k, len(relevance))):
        best = int(np.argmax(np.where(is_left, relevance * shares, -np.inf)))
        place, share = order[best], float(shares[best])
        picked.append(replace(place, score=place.score * share, parts={**place.parts, "diversity": share}))
        is_left[best] = False
        alike = np.clip(vectors @ vectors[best], 0.0, 1.0)
        shares = np.minimum(shares, 1.0 - diversity * alike.astype(np.float64))
    return picked


class Step(NamedTuple):
    """One fact that a walk came by: how strongly, and how many relations from where it began."""

    score: float
    hops: int


def walk_shares(walk: Mapping[str, Step]) -> dict[str, Step]:
    """How much a walk says of each fact that it came by, in [0, 1]: its score as a share of the strongest, over √n.

    n is how many it came by at least half as strongly as the strongest. One that reaches all that is known of a person
    says of none of it that it is asked for. Without √n one line stands in .54 of the blocks of a conversation that a
    model read, with it in .32, and they hold .941 of the evidence instead of .926; over n it is the same.
    """
    best = max((step.score for step in walk.values()), default=0.0)
    if best <= 0.0:
        return {}
    reached = sum(step.score >= best / 2 for step in walk.values())
    return {name: step._replace(score=step.score / best / reached**0.5) for name, step in walk.items()}


def fuse(order: Sequence[RankedFact], walk: Mapping[str, Step], weight: float) -> list[RankedFact]:
    """The facts with `weight` × how much the walk says of each (`walk_shares`); sorted again.

    Every fact of the walk that may answer is in `order`: what search had not found is there with what it would have
    scored. A sum of scores, and not of reciprocal ranks, for the reason that holds for words and meaning: the walk says
    that a fact is near what the question names, hardly ever that it answers, and ranks would make its first as sure as
    the first of search.
    """
    if not walk:
        return list(order)
    fused = []
    for place in order:
        graph, hops = walk.get(place.fact_id or "", Step(0.0, 0))
        score = place.score + weight * graph
        parts = {"graph": graph, "hops": float(hops)} if graph else {}
        fused.append(replace(place, score=score, parts={**place.parts, **parts, "fused": score}))
    return sorted(fused, key=lambda place: -place.score)


def weighted(order: Sequence[RankedFact], factors: Mapping[str, Mapping[str, float]], name: str) -> list[RankedFact]:
    """The facts with their scores × the factor `name` of each, and all its factors among their parts; sorted again."""
    raised = []
    for place in order:
        own = factors.get(place.fact_id or "", {})
        raised.append(replace(place, score=place.score * own.get(name, 1.0), parts={**place.parts, **own}))
    return sorted(raised, key=lambda place: -place.score)


def raised(order: Sequence[RankedFact], those: Collection[str], by: float, name: str) -> list[RankedFact]:
    """The facts with `by` added to the scores of `those`, named `name` among their parts; sorted again."""
    lifted = []
    for place in order:
        more = by if place.fact_id in those else 0.0
        lifted.append(replace(place, score=place.score + more, parts={**place.parts, name: more}))
    return sorted(lifted, key=lambda place: -place.score)


# The names in a text, word for word.


_NAME_WORD = re.compile(r"\w+", re.UNICODE)
LONGEST = 8  # words of a name that is looked for


def words_of(name: str) -> tuple[str, ...]:
    """The words by which a name is looked for: normalised, without marks between them."""
    return tuple(_NAME_WORD.findall(normalise_name(name)))


def named_in(text: str, names: Mapping[tuple[str, ...], Collection[str]]) -> list[str]:
    """The ids of the names in a text, in order, each once; `names` are words (`words_of`) → ids.

    Of names that begin at one word the longest counts, and no word counts twice: "Anna Lee" does not name Anna.
    """
    words = words_of(text)
    found: dict[str, None] = {}
    start = 0
    while start < len(words):
        lengths = range(min(LONGEST, len(words) - start), 0, -1)
        length = next((n for n in lengths if words[start : start + n] in names), 0)
        found |= dict.fromkeys(names.get(words[start : start + length], ()))
        start += length or 1
    return list(found)


def entities_named(text: str, names: Mapping[str, str]) -> set[str]:
    """Ids of the entities that a text names, by their whole name or its first word; `names` are id → name.

    A first word counts where the text spells it as the name does, with a capital: "Anna" for Anna Lee, no "new" for
    New York.
    """
    by_words: dict[tuple[str, ...], set[str]] = {}
    spelt = {*_NAME_WORD.findall(text)}
    for id_, name in names.items():
        words, first = words_of(name), next(iter(_NAME_WORD.findall(name)), "")
        by_words.setdefault(words, set()).add(id_)
        if len(words) > 1 and first in spelt and first[0].isupper() and first.lower() not in FUNCTION_WORDS:
            by_words.setdefault(words[:1], set()).add(id_)
    return set(named_in(text, by_words))
