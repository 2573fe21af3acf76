"""Which known facts does a text mean? Those that a directive names, and those about the same matter (S1-21).

"The shop's database is MariaDB" has the speaker as subject, and "We use SQLite instead of MariaDB" may name no subject:
the two share the old thing (MariaDB) and the matter (the database). A true fact that is closed is hard to find again,
so every doubt keeps it: another matter, another person's habit, the past, a plan under consideration, or several
possible matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from slowwave.comparison.similarity import Vectors, top_of
from slowwave.extraction.clauses import split
from slowwave.lexicon.statement_words import FUNCTION_WORDS, MONTHS
from slowwave.text import prose, sentences, word_set
from slowwave.words import subject_words, without_ending

from .mutual_exclusion import WORD, telling
from .revision_state import Fact

Names = Mapping[str, frozenset[str]]

_QUOTED_BY = re.compile(r"^[^\"“:]{2,80}:\s[\"“]?|[\"”]$")
_FIRST = re.compile(r"\b(?:I|i|my|My|mine|me|I['’]\w+)\b")
_REASON = re.compile(r"\s(?:because|since|so\sthat|as\sit|due\sto|which|although|though)\s|;\s|[.!?]\s")
_PARTS = re.compile(r"(?:,\s)?\s(?:and|but|while|whereas|y|pero|und|aber)\s|[;.!?]\s")
_FINITE = re.compile(
    r"\b(?:is|are|has|have|runs?|uses?|works?|lives?|goes|go|needs?|will|can|sells?|does|do|says?|likes?|prefers?|must|should"
    r"|'s|'m|'re)\b"
)
MIN_PART_WORDS = 2
_BESIDE = re.compile(
    r"(\S+(?:\s\S+)?)(?=(?:\snow|\stoday)?(?:,?\s(?:instead\sof|rather\sthan|in\splace\sof|en\svez\sde)"
    r"|,\s(?:and\s)?(?:not|no\slonger|no\smore))\s)"
    r"|\bfrom\s.{1,60}?\sto\s(\S+(?:\s\S+)?)"
    r"|\b(?:replaced|swapped|exchanged)\s.{1,60}?\s(?:with|by|for)\s((?:an?\s|the\s)?\S+(?:\s\S+)?)"
)
_QUALIFIED = re.compile(
    r"\b(?P<by>for|to|in|on|at|of)\s(?:the\s|our\s|my\s|his\s|her\s|their\s|an?\s)?(?P<what>[^\W\d_][\w-]*)",
    re.IGNORECASE,
)
_TASTES = frozenset({"prefers", "likes", "loves", "enjoys", "dislikes", "wants", "interested_in", "fears", "tolerates"})
_OF_TASTE = re.compile(
    r"\b(?:prefer\w*|like[sd]?|lov(?:e|es|ed)|enjoy\w*|hate[sd]?|dislike\w*|favou?rite|fan|rather|better|want\w*|mind"
    r"|prefier\w*|gusta\w*|taste\w*|stand|use)\b",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"(?:(?:ok|okay|please|actually|well|so)[,\s]+)?(?:forget|never\s?mind|scrap|ditch|drop)\b", re.IGNORECASE
)
_UNIT_BEHIND = re.compile(r"^\s[a-z]+")
_CLAUSE = re.compile(r"[,;:–—]\s|\s-\s")
_DROPPED = (
    r"(?:from|instead\sof|rather\sthan|not|no\slonger(?:\s[\w'’]+){0,3}|over|than|never|forget|without|stopped(?:\s\w+)?"
    r"|left|no\smore|in\splace\sof|replaced|(?:\w+n['’]t|do\snot|does\snot|ya\sno|en\svez\sde)(?:\s[\w'’]+){0,3})"
    r"\s(?:the\s|an?\s|our\s|my\s|el\s|la\s)?"
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|used\sto|formerly|previously|back\sthen|would|could|should|might|if|considered|tried|wanted\sto"
    r"|met|went|saw|took|bought|came|made|left|wrote|told|found|gave|sent|spent|won|lost|sold|drove|flew|ate|drank|broke|began"
    r"|(?<!is\s)(?<!are\s)(?<!be\s)(?<!been\s)(?<!is\snow\s)(?<!get\s)(?<!gets\s)(?!based|called|named|need|speed|feed)\w{2,}ed)\b",
    re.IGNORECASE,
)
_PLANNED = re.compile(
    r"\b(?:decided|agreed|chose|planned|want(?:s|ed)?\sto|booked|scheduled|going\sto)\b", re.IGNORECASE
)
_UNITS = word_set(
    """am pm uhr euro euros dollar dollars eur usd percent second seconds minute minutes hour hours day days week weeks
    month months year years ms kb mb gb tb per st nd rd th o'clock"""
)
_GENERIC = word_set(
    """use uses used using run runs running ran move moves moved moving switch switched migrate migrated go goes went
    gone going get got have has having had keep keeps kept prefer prefers preferred prefiero like likes want wants
    decide decided plan plans planned host hosted set sets put puts make makes made take takes took come comes
    came be been stay stays upgrade upgraded update updated change changed raise raised lower lowered increase
    increased slip slipped postpone postponed replace replaced work works do does did start starts write writes
    written built build now new old currently from everything every all always instead longer anymore any more
    better best really also still just over last next week weekend month today yesterday tomorrow since monday
    tuesday wednesday thursday friday saturday sunday morning evening afternoon night sometimes usually uso usamos
    ahora version up down back actually mind off forget gave give given quit stop stopped scrap ditch drop minds
    leased lease dropped cancelled canceled table never decision idea not no thing things stuff way please
    remember sorry said meant correction oops wait mistake bad scratch
    on at is are it its we our i my they their he she his her will"""
) | frozenset(MONTHS)


def tells(fact: Fact, words: str) -> bool:
    """Whether the statement of a fact names the thing as present, not as something that was left."""
    bare = unquoted(fact["statement"])
    found = _place(bare, words)
    return found is not None and not re.search(_DROPPED + r"$", bare[: found[0]], re.IGNORECASE)


def telling_words(words: str) -> list[str]:
    """The content words of a text in lower case, for the search in statements."""
    return [word.lower() for word in telling(words)]


def means(old: str, action: str, speaker: Fact, facts: Iterable[Fact], names: Names) -> list[Fact]:
    """The facts that the words `old` mean: all of one matter, or none if several matters are possible.

    `names`: every normalised name of each entity.
    """
    fitting = [fact for fact in facts if _may_mean(fact, speaker, old, action, names)]
    own = _own_matter(speaker, old, names, action)
    if any(_matter(fact, old, names) & own.whole for fact in fitting):
        return fitting
    return fitting if len({_matter(fact, old, names) for fact in fitting}) == 1 else []


def _may_mean(fact: Fact, speaker: Fact, old: str, action: str, names: Names) -> bool:
    if fact["polarity"] == "negated" or not tells(fact, old):
        return False
    bare = unquoted(fact["statement"])
    was = bool(_PAST.search(bare)) and not _PLANNED.search(bare)
    if was or _tells_more(fact, bare, old) or are_other_cases(fact, speaker, old):
        return False
    is_other = fact["subject_id"] != speaker["subject_id"]
    known: Names = {} if is_other else names
    matter, own = _matter(fact, old, known), _own_matter(speaker, old, known, action)
    shared = bool(matter & own.whole)
    if is_value(old):
        measured = _stems(bare, old, "", is_counted=True)
        return bool(matter) and (matter == own.whole or (bool(measured) and measured == own.rest))
    if is_other and not (_is_open_to_all(fact, names) and _is_open_to_all(speaker, names)):
        return False
    if is_other and not shared and not any(name in old.lower() for name in names.get(speaker["subject_id"], ())):
        return False
    if _opens(bare, old) and not shared and not _opens(unquoted(speaker["statement"]), old):
        return False  # it is about the thing itself: "MariaDB is slow"
    return shared or not matter or not own.rest


def are_other_cases(fact: Fact, speaker: Fact, old: str) -> bool:
    """Whether two statements are about different cases: the shop and the blog, or a taste and no taste."""
    words = unquoted(speaker["statement"])
    is_withdrawn = fact["predicate"] == "wants" and _WITHDRAWN.match(words)
    if fact["predicate"] in _TASTES and not _OF_TASTE.search(words) and not is_withdrawn:
        return True
    one, other = _qualified(unquoted(fact["statement"]), old), _qualified(words, old)
    return any(one[by].isdisjoint(other[by]) for by in one.keys() & other.keys())


@lru_cache(maxsize=65_536)
def _qualified(words: str, old: str) -> Mapping[str, frozenset[str]]:
    """The stems that limit a statement, by preposition: "for the shop", "to Austria"."""
    if "from " in words.lower():
        return {}
    dropped = {part.lower() for part in WORD.findall(old)}
    cases: dict[str, set[str]] = {}
    for found in _QUALIFIED.finditer(words):
        word = found["what"].lower()
        if word not in dropped | _GENERIC and word not in FUNCTION_WORDS:
            cases.setdefault(found["by"].lower(), set()).add(without_ending(word, 5))
    return {by: frozenset(stems) for by, stems in cases.items()}


def _tells_more(fact: Fact, bare: str, old: str) -> bool:
    """Whether the statement has a second part that would be lost: "A runs on X and B runs on Y"."""
    parts = [part for part in _PARTS.split(bare) if part.strip()]
    others = [part for part in parts if not _place(part, old)]
    if len(others) == len(parts):
        return False  # the words go across
    if thing := (fact["object_text"] or "").lower():
        own = (part for part in parts if part not in others)
        return any(thing in part.lower() for part in others) and not any(thing in part.lower() for part in own)
    return any(_FINITE.search(part) and len(part.split()) > MIN_PART_WORDS for part in others)


def _opens(statement: str, words: str) -> bool:
    """Whether a statement begins with the words, so it is about the thing itself."""
    found = _place(statement, words)
    return found is not None and statement[: found[0]].strip().lower() in ("", "the", "a", "an", "our", "my", "this")


def _is_open_to_all(fact: Fact, names: Names) -> bool:
    """Whether other people may know it too: no habit, wish or possession of the speaker."""
    bare, own = unquoted(fact["statement"]), names.get(fact["subject_id"], frozenset())
    is_retold = bare == fact["statement"] and any(bare.lower().startswith(name) for name in own)
    return not _FIRST.search(bare) and not is_retold


def is_value(words: str) -> bool:
    """Whether words are an amount, a time or a date; many things may share one."""
    parts = WORD.findall(words.lower())
    return any(mark.isdigit() for mark in words) and all(
        any(mark.isdigit() for mark in part) or part in MONTHS or part in _UNITS for part in parts
    )


@lru_cache(maxsize=65_536)
def unquoted(statement: str) -> str:
    """A statement without the name of the quoted speaker and the quotation marks."""
    return _QUOTED_BY.sub("", statement)


@dataclass(frozen=True, slots=True)
class _Own:
    """The matter of a directive: `whole`, and `rest` without the replacement."""

    whole: frozenset[str]
    rest: frozenset[str]


def _matter(fact: Fact, old: str, names: Names) -> frozenset[str]:
    return _stems(unquoted(fact["statement"]), old, " ".join(sorted(names.get(fact["subject_id"], ()))))


def _own_matter(speaker: Fact, old: str, names: Names, action: str) -> _Own:
    own, words = " ".join(sorted(names.get(speaker["subject_id"], ()))), unquoted(speaker["statement"])
    if action != "supersede":
        words = next((clause for clause in _CLAUSE.split(words) if _place(clause, old)), words)
    new = " ".join(part for found in _BESIDE.findall(words) for part in found)
    return _Own(_stems(words, old, own), _stems(words, old, f"{own} {new}"))


@lru_cache(maxsize=65_536)
def _stems(words: str, old: str, left_out: str, *, is_counted: bool = False) -> frozenset[str]:
    """Stems of the content words beside the thing itself, without amounts and reasons.

    `is_counted`: also without the next word, the unit of an amount.
    """
    reason = _REASON.search(words)
    bare = words[: reason.start()] if reason else words
    if found := _place(bare, old):
        rest = bare[found[1] :]
        bare = f"{bare[: found[0]]} {_UNIT_BEHIND.sub('', rest) if is_counted else rest}"
    dropped = {part.lower() for part in WORD.findall(f"{left_out} {old}")}
    return frozenset(
        without_ending(word, 5)
        for raw in WORD.findall(bare)
        if (word := re.sub(r"['’]s$", "", raw.lower())) not in FUNCTION_WORDS
        and word not in _GENERIC
        and word not in _UNITS
        and word not in dropped
        and not any(mark.isdigit() for mark in word)
        and not word.endswith(("n't", "n’t"))
        and len(word) > 1
    )


def _place(statement: str, words: str) -> tuple[int, int] | None:
    """Span of the words in a statement as a phrase; else the span of all their content words."""
    phrase = r"\s+".join(map(re.escape, words.split()))
    if not phrase:
        return None
    found = re.search(rf"(?<![\w.,:])(?<!\d[.,:]){phrase}(?![\w])(?![.,:]\d)", statement, re.IGNORECASE)
    if found:
        return found.span()
    parts = telling(words)
    if len(parts) < 2 or any(map(str.isdigit, words)):
        return None
    places = [re.search(rf"(?<!\w){re.escape(word)}(?!\w)", statement, re.IGNORECASE) for word in parts]
    ends = [place.span() for place in places if place]
    return (min(start for start, _ in ends), max(end for _, end in ends)) if len(ends) == len(parts) else None


# Counterparts: facts about the same matter that a statement may contradict or update. They differ in numbers and
# denials, so these are left out of the comparison; the other words are weighed by BM25, with the cosine beside it. A
# text of several claims is searched once for each claim, because a denial is a small part of a long text and of its
# vector. The weight of the cosine was chosen among 0, 4 and 8 on the development pairs; it moves one of them at most.


CANDIDATES = {"id": pl.String, "candidate_id": pl.String, "place": pl.Int64, "score": pl.Float64}
MEANING_WEIGHT = 4.0  # about the BM25 weight of one shared word of medium frequency
_SATURATION, _LENGTH = 1.2, 0.75  # the usual k1 and b
_CELLS = 20_000_000  # scores in memory at once
_CLAIMED = re.compile(
    r"\b(?:have|has|had|never|recently|already|now|been|he|ha|hemos|nunca|ya|ahora)\b|['’]ve\b|\b(?:I|we)\s(?:\w+ly\s)?\w+ed\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"(?:[,;:–—-]\s*|\s+)(?:(?:and|so|but)\s+)?(?:(?:can|could|would|will)\s+you|(?<=[,;:–—-]\s)(?:how|what|why|which|where"
    r"|when|should|is|are|do|does|(?:and|so|but)\s+(?:how|what|why|should)))\b[^?]*\?\s*$",
    re.IGNORECASE,
)


def claims_of(text: str) -> list[str]:
    """The clauses of a text that state something, without questions; the whole prose if there is none.

    For texts longer than a fact; a fact is one claim.
    """
    plain = prose(text)
    clauses = [_ASKING.sub("", clause) for sentence in sentences(plain) for _, clause in split(sentence)]
    claims = [clause for clause in clauses if _CLAIMED.search(clause) and not clause.rstrip().endswith("?")]
    return claims or [plain]


def find_counterparts(
    questions: pl.DataFrame,
    question_vectors: Vectors,
    candidates: pl.DataFrame,
    candidate_vectors: Vectors,
    k: int = 20,
) -> pl.DataFrame:
    """CANDIDATES: for each id of `questions` the `k` of `candidates` that are most about the same matter, best first.

    Only of its scope, and never itself. Both frames have id, scope and statement, with rows in the order of their
    vectors (unit, or zero if there is none). An id may have several rows, one for each claim: its candidates are then
    taken from the claims in turn, and `score` is the best: BM25 of shared words + MEANING_WEIGHT · cosine. Ties are
    broken by id.
    """
    parts = [pl.DataFrame(schema=CANDIDATES)]
    ordered = candidates.with_row_index("row").sort("id")
    numbered = questions.with_row_index("row")
    for (scope,), part in numbered.partition_by("scope", as_dict=True, maintain_order=True).items():
        options = ordered.filter(pl.col("scope") == scope)
        if len(options):
            vectors = candidate_vectors[options["row"].to_numpy()]
            parts.append(_in_scope(part, question_vectors, options, vectors, k))
    found = pl.concat(parts)
    order = questions.select("id").unique(maintain_order=True).with_row_index("order")
    return found.join(order, on="id").sort("order", "place").select(*CANDIDATES)


def _in_scope(
    questions: pl.DataFrame, question_vectors: Vectors, options: pl.DataFrame, vectors: Vectors, k: int
) -> pl.DataFrame:
    weights = _postings(options["statement"])
    width = min(k + 1, len(options))  # one more: it may be itself
    parts = [
        _best(part, question_vectors[part["row"].to_numpy()] @ vectors.T, weights, options["id"], width)
        for part in questions.iter_slices(max(1, _CELLS // len(options)))
    ]
    ranked = pl.concat(parts).filter(pl.col("id") != pl.col("candidate_id"))
    ranked = ranked.with_columns(turn=pl.int_range(pl.len()).over("row"))
    merged = ranked.group_by("id", "candidate_id").agg(pl.col("turn").min(), pl.col("score").max())
    first = merged.sort("id", "turn", -pl.col("score"), "candidate_id").group_by("id", maintain_order=True).head(k)
    return first.with_columns(place=pl.int_range(1, pl.len() + 1).over("id")).select(
        pl.col(name).cast(kind) for name, kind in CANDIDATES.items()
    )


def _best(
    questions: pl.DataFrame, cosines: Vectors, postings: pl.DataFrame, ids: pl.Series, width: int
) -> pl.DataFrame:
    """(row, id, candidate_id, score) of the `width` best for each question, best first."""
    scores = np.maximum(cosines, 0.0) * np.float32(MEANING_WEIGHT)
    words = pl.DataFrame({"question": np.arange(len(questions)), "word": subject_words(questions["statement"])})
    met = words.explode("word").drop_nulls("word").unique().join(postings, on="word")
    sums = met.group_by("question", "place").agg(pl.col("weight").sum())
    scores[sums["question"].to_numpy(), sums["place"].to_numpy()] += sums["weight"].to_numpy().astype(np.float32)
    places, values = top_of(scores, width)
    return pl.DataFrame(
        {
            "row": np.repeat(questions["row"].to_numpy(), width),
            "id": questions["id"].gather(np.repeat(np.arange(len(questions)), width)),
            "candidate_id": ids.gather(places.ravel()),
            "score": values.ravel().astype(np.float64),
        }
    )


def _postings(statements: pl.Series) -> pl.DataFrame:
    """(word, place, weight): the BM25 weight of each word in each statement."""
    words = pl.DataFrame({"place": np.arange(len(statements)), "word": subject_words(statements)})
    counted = words.explode("word").drop_nulls("word").group_by("place", "word").len("count")
    length = pl.col("count").sum().over("place")
    mean = max(float(counted["count"].sum()) / max(len(statements), 1), 1.0)
    often = pl.len().over("word")
    rarity = (1 + (len(statements) - often + 0.5) / (often + 0.5)).log()
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
    return counted.with_columns(weight=rarity * pl.col("count") * (_SATURATION + 1) / (pl.col("count") + norm))
