"""Mentions: the names of a batch, each once, and people who are named by kin or role (S2-02, S2-03, S2-18)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from slowwave import frames
from slowwave.errors import UnusableInput
from slowwave.filters.injection import injection_reason
from slowwave.filters.redaction import has_secret
from slowwave.lexicon.labels import canonical_type
from slowwave.text import MAX_NAME_BYTES, cut_bytes, normalise_name, readable, row_id, word_set

FIRST_PERSON = word_set("my our mi mis nuestro nuestra")
"""Possessive words of the speaker."""

KIN_MARK = r"['’]s? |^(?:my|our|mi|mis|nuestr[oa]) | (?:of|de) "
"""A pattern that every possible kin name has, in lower case."""

_ENGLISH = word_set(
    """wife husband spouse partner girlfriend boyfriend fiance fiancé fiancée fiancee ex mother father sister brother
    sibling son daughter child baby stepmother stepfather stepson stepdaughter stepsister stepbrother twin aunt uncle
    niece nephew cousin grandmother grandfather grandson granddaughter godmother godfather godson goddaughter
    mother-in-law father-in-law sister-in-law brother-in-law son-in-law daughter-in-law ex-wife ex-husband
    ex-girlfriend ex-boyfriend ex-partner roommate flatmate housemate neighbor neighbour friend manager boss supervisor
    mentor mentee coach therapist doctor dentist teacher tutor professor advisor adviser landlord landlady assistant
    colleague coworker co-worker teammate client lawyer accountant trainer instructor nanny babysitter dog cat puppy
    kitten horse parrot rabbit hamster"""
)
_SAME: Mapping[str, str] = {
    "mom": "mother", "mum": "mother", "mommy": "mother", "mama": "mother", "mamma": "mother", "ma": "mother",
    "dad": "father", "daddy": "father", "papa": "father", "hubby": "husband", "grandma": "grandmother",
    "granny": "grandmother", "nana": "grandmother", "grandpa": "grandfather", "granddad": "grandfather",
    "neighbour": "neighbor", "fiance": "fiancé", "fiancee": "fiancée", "co-worker": "coworker", "adviser": "advisor",
    "esposa": "wife", "mujer": "wife", "esposo": "husband", "marido": "husband", "novia": "girlfriend",
    "novio": "boyfriend", "pareja": "partner", "madre": "mother", "mamá": "mother", "padre": "father",
    "papá": "father", "hermana": "sister", "hermano": "brother", "hijo": "son", "hija": "daughter", "tía": "aunt",
    "tío": "uncle", "tia": "aunt", "tio": "uncle", "sobrina": "niece", "sobrino": "nephew", "prima": "cousin",
    "primo": "cousin", "abuela": "grandmother", "abuelo": "grandfather", "nieta": "granddaughter",
    "nieto": "grandson", "suegra": "mother-in-law", "suegro": "father-in-law", "cuñada": "sister-in-law",
    "cuñado": "brother-in-law", "jefe": "boss", "jefa": "boss", "compañera": "colleague", "compañero": "colleague",
    "amiga": "friend", "amigo": "friend", "vecina": "neighbor", "vecino": "neighbor", "casero": "landlord",
    "casera": "landlady", "médica": "doctor", "médico": "doctor", "profesora": "teacher", "profesor": "teacher",
    "perro": "dog", "perra": "dog", "gato": "cat", "gata": "cat",
}  # fmt: skip
ROLES: Mapping[str, str] = {role: role for role in sorted(_ENGLISH)} | dict(_SAME)
"""Each word for a role, English or Spanish, with its stored word."""
_MANY = word_set(
    """friend neighbor neighbour colleague coworker co-worker teammate client compañera compañero amiga amigo vecina
    vecino teacher professor doctor coach child cousin aunt uncle"""
)
"""Roles that most people have several of: no identity without a word that picks one, as in "best friend"."""
_SEVERAL = _MANY | word_set(
    """sister brother sibling son daughter baby stepson stepdaughter stepsister stepbrother niece nephew grandson
    granddaughter grandmother grandfather godson goddaughter sister-in-law brother-in-law son-in-law daughter-in-law
    roommate flatmate housemate mentor mentee assistant tutor instructor advisor dog cat puppy kitten horse parrot
    rabbit hamster ex"""
)
_PICKS = word_set(
    """best oldest older elder eldest younger youngest little big twin middle late former old new current first second
    only other ex mejor mayor menor antiguo antigua nuevo nueva"""
)
_POSSESSIVE = re.compile(r"^(?P<who>.+?)(?:'s|s')\s+(?P<rest>\S.*)$")
_OF = re.compile(r"^(?:the\s+|la\s+|el\s+)?(?P<rest>[\w\s-]+?)\s+(?:of|de)\s+(?P<who>.+)$")
_OWN = re.compile(rf"^(?P<who>{'|'.join(sorted(FIRST_PERSON))})\s+(?P<rest>\S.*)$", re.IGNORECASE)
_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][\w'’-]*(?:\s+[A-ZÀ-ÖØ-Þ][\w'’-]*)*$")


@dataclass(frozen=True, slots=True)
class Kin:
    """A person by relation: `possessor` as written ("Evan", "my"), the role, and a name if known."""

    possessor: str
    role: str
    name: str = ""

    @property
    def may_be_several(self) -> bool:
        """Whether people may have several of the role: two sisters, two sons."""
        return self.role.split()[-1] in _SEVERAL and " " not in self.role

    @property
    def is_own(self) -> bool:
        """Whether the possessor is the speaker."""
        return self.possessor.lower() in FIRST_PERSON

    def called(self, possessor: str | None = None) -> str:
        """The canonical name: "evan's wife"."""
        return normalise_name(f"{possessor or self.possessor}'s {self.role}")


def kin_of(name: str) -> tuple[str, str] | None:
    """(possessor, role) of a name like "Evan's wife", "my older sister", "la esposa de Evan"; None for any other.

    Plurals ("Evan's kids") and roles with many bearers ("my friend") mean no one person.
    """
    found = read_kin(name)
    return (found.possessor, found.role) if found else None


def read_kin(name: str) -> Kin | None:
    """`kin_of` with the name after the role: "my wife Anna", "Evan's wife, Anna Keller"."""
    plain = " ".join(name.replace("’", "'").split())
    for possessor, rest in _splits(plain):
        own = _NAME.search(rest)
        called = own.group() if own else ""
        words = (rest[: own.start()] if own else rest).strip(" ,").lower().split()
        role = _role(words)
        if role and (called or words[-1] not in _MANY or len(words) > 1):
            return Kin(possessor, role, called)
    return None


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """(possessor, rest) of the name; the last possessive counts: "Evan's wife's | sister"."""
    if own := _OWN.match(name):
        if "'s " not in own["rest"]:
            yield own["who"].lower(), own["rest"]
        return
    head, mark, rest = name.rpartition("'s ")
    if mark:
        yield head.strip(), rest
    elif found := _POSSESSIVE.match(name):
        yield f"{found['who']}s", found["rest"]
    elif (found := _OF.match(name)) and found["who"][:1].isupper():
        yield found["who"], found["rest"]


def _role(words: list[str]) -> str:
    """The role in these words, with the words that pick one: "older sister"."""
    if not words or len(words) > 3 or words[-1] not in ROLES or not _PICKS.issuperset(words[:-1]):
        return ""
    return " ".join([*words[:-1], ROLES[words[-1]]])


def is_role(word: str) -> bool:
    """Whether a word is a role or its plural: "manager", "kids", "friends"."""
    plain = word.lower()
    return plain in ROLES or plain.removesuffix("s") in ROLES or plain in _GROUPS


_GROUPS = word_set(
    """kids children parents grandparents siblings family relatives wives guys folks people person man woman boy girl
    men women boys girls team staff crew everyone hijos padres hermanos familia gente"""
)


def kin_name(subject: str, relation: str, object: str | None) -> tuple[str, str] | None:
    """(kin name, name) if a claim names a person of kin: "Evan has_wife Anna"."""
    if not object or not _NAME.match(object):
        return None
    plain = relation.lower().replace(" ", "_")
    role = ROLES.get(plain.removeprefix("has_").removeprefix("tiene_").replace("_", " "))
    if role and plain.startswith(("has_", "tiene_")):
        return normalise_name(f"{subject}'s {role}"), object
    kin = read_kin(subject)
    if kin and not kin.is_own and not kin.name and plain in _NAMES:
        return kin.called(), object
    return None


_NAMES = word_set("is is_a named is_named called is_called has_name name se_llama es")


MIN_NAME_BYTES = 3
MAX_SUMMARY_BYTES = 2048
RAW_MENTIONS = {
    "window": pl.Int64(),
    "name": pl.String(),
    "entity_type": pl.String(),
    "summary": pl.String(),
    "seen_at": frames.TIME,
}
JUDGED = RAW_MENTIONS | {
    "first_seen_at": frames.TIME,
    "is_named": pl.Boolean(),
    "owner": pl.String(),
    "kin": pl.String(),
}
"""RAW_MENTIONS with columns that a reader may add: `first_seen_at` where `seen_at` is only the last time, `is_named` by
`is_entity` (null: not judged), `owner` (the speaker of a "my" in the name), `kin` (the kin name of its bearer, "Evan's
wife")."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """The names of a batch.

    `distinct`: mention, canonical_name, entity_type, name (latest form), clean_name, summary (latest), kin (the kin
    name of its bearer, if known), first_seen_at, last_seen_at, times. `links`: window, canonical_name as written,
    mention. `rejected`: names under three bytes; `not_named`: words that are no name.
    """

    distinct: pl.DataFrame
    links: pl.DataFrame
    rejected: int = 0
    not_named: int = 0

    def names(self) -> list[str]:
        """Canonical names to look up among entities and aliases before planning."""
        both = pl.concat([self.distinct["canonical_name"], self.distinct["kin"].drop_nulls()])
        return both.unique(maintain_order=True).to_list()


def mentions_in(raw: pl.DataFrame, *, type_strict: bool = False) -> Mentions:
    """Each name of a batch once; `raw` has RAW_MENTIONS in order of extraction.

    One name under several types is one mention of the most frequent type; `concept` counts only without another type.
    """
    judged = frames.conform(raw, JUDGED).filter(pl.col("is_named").fill_null(True))
    named = _as_kin(_normalised(judged))
    long_enough = named.filter(pl.col("canonical_name").str.len_bytes() >= MIN_NAME_BYTES)
    typed = long_enough if type_strict else _one_type(long_enough)
    distinct = (
        typed.sort("seen_at", maintain_order=True, nulls_last=False)
        .group_by("canonical_name", "entity_type", maintain_order=True)
        .agg(
            name=pl.col("name").last(),
            clean_name=pl.col("clean_name").last(),
            summary=pl.col("summary").drop_nulls().last(),
            kin=pl.col("kin").drop_nulls().last(),
            first_seen_at=pl.min_horizontal("first_seen_at", "seen_at").min(),
            last_seen_at=pl.col("seen_at").max(),
            times=pl.len(),
        )
        .sort("first_seen_at", "canonical_name", "entity_type")
        .with_columns(mention=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    links = (
        typed.join(distinct.select("canonical_name", "entity_type", "mention"), on=["canonical_name", "entity_type"])
        .unique(["window", "as_written"], keep="first", maintain_order=True)
        .select("window", pl.col("as_written").alias("canonical_name"), "mention")
    )
    return Mentions(distinct, links, named.height - long_enough.height, raw.height - judged.height)


def new_id(canonical_name: str, entity_type: str) -> str:
    """The id of a new entity with this name and type."""
    return row_id("e", canonical_name, entity_type)


def embed_texts(mentions: pl.DataFrame) -> pl.Series:
    """The text that is embedded for a name: `name: summary`, or the name alone (S2-07).

    The name is the canonical one, or the name that a person gave.
    """
    summary = pl.col("summary").fill_null("")
    names = mentions.with_columns(called=_given_names(mentions))
    with_summary = pl.concat_str("called", pl.lit(": "), summary)
    return names.select(text=pl.when(summary == "").then("called").otherwise(with_summary))["text"]


def _given_names(named: pl.DataFrame) -> pl.Series:
    if "is_renamed" not in named.columns or not named["is_renamed"].any():
        return named["canonical_name"]
    rows = named.select("canonical_name", "name", "is_renamed").iter_rows()
    return pl.Series([normalise_name(name) if given else known for known, name, given in rows], dtype=pl.String)


def _normalised(raw: pl.DataFrame) -> pl.DataFrame:
    """Adds canonical_name and clean_name, trims summaries, maps types; names are normalised once each."""
    names = raw["name"].drop_nulls().unique().to_list()
    forms = pl.DataFrame(
        [(name, normalise_name(name), readable(name).strip()) for name in names],
        schema={"name": pl.String, "canonical_name": pl.String, "clean_name": pl.String},
        orient="row",
    )
    types = {word: canonical_type(word) for word in raw["entity_type"].drop_nulls().unique()}
    known_type = pl.col("entity_type").replace_strict(types, default=None, return_dtype=pl.String)
    summaries = raw["summary"].drop_nulls().unique().to_list()
    cut = {summary: cut_bytes(readable(summary).strip(), MAX_SUMMARY_BYTES) for summary in summaries}
    return raw.join(forms, on="name", how="left", maintain_order="left").with_columns(
        pl.col("canonical_name", "clean_name").fill_null(""),
        entity_type=known_type.fill_null("concept"),
        summary=pl.col("summary").replace(cut),
    )


def _as_kin(named: pl.DataFrame) -> pl.DataFrame:
    """Adds `as_written` and the stored names of kin; "my wife Anna" is "anna" with a kin name.

    A "my" without a known speaker is left out: it could mean anybody.
    """
    rows = named.with_columns(as_written="canonical_name")
    candidates = rows.filter(pl.col("canonical_name").str.contains(KIN_MARK)).select("name", "owner").unique()
    kin = [(name, owner, one) for name, owner in candidates.iter_rows() if (one := read_kin(name)) is not None]
    stored = [(name, owner, *_kin_names(one, owner)) for name, owner, one in kin]
    schema = dict.fromkeys(("name", "owner", "stored", "shown", "known_as"), pl.String())
    found = pl.DataFrame(stored, schema=schema, orient="row").with_columns(is_kin=pl.lit(True))
    both = rows.join(found, on=["name", "owner"], how="left", nulls_equal=True, maintain_order="left")
    whole = both.filter(pl.col("is_kin").is_null() | pl.col("stored").is_not_null())
    shown = pl.coalesce("shown", "name")
    return whole.with_columns(
        canonical_name=pl.coalesce("stored", "canonical_name"),
        clean_name=pl.coalesce("shown", "clean_name"),
        name=shown,
        kin=pl.coalesce("kin", "known_as"),
    ).drop("stored", "shown", "known_as", "is_kin")


def _kin_names(kin: Kin, owner: str | None) -> tuple[str | None, str | None, str | None]:
    """(canonical name, shown name, kin name of a person with a name)."""
    if kin.is_own and not owner:
        return (normalise_name(kin.name), kin.name, None) if kin.name else (None, None, None)
    possessor = str(owner) if kin.is_own else kin.possessor
    known_as = kin.called(possessor)
    if kin.name:
        return normalise_name(kin.name), kin.name, known_as
    return known_as, f"{possessor}'s {kin.role}", None


def _one_type(named: pl.DataFrame) -> pl.DataFrame:
    votes = (
        named.with_row_index("place")
        .group_by("canonical_name", "entity_type")
        .agg(pl.len().alias("votes"), pl.col("place").min())
        .sort(pl.col("entity_type") == "concept", -pl.col("votes").cast(pl.Int64), "place")
        .unique("canonical_name", keep="first", maintain_order=True)
    )
    return named.drop("entity_type").join(
        votes.select("canonical_name", "entity_type"), on="canonical_name", how="left", maintain_order="left"
    )


# Names that a person gives to an entity: the stored form, and checks (S2-03, T38, T39).


def shown_name(name: str) -> str:
    """The stored and shown form of a name: visible, on one line, single-spaced, at most 512 bytes."""
    return cut_bytes(" ".join(readable(name).split()), MAX_NAME_BYTES)


def is_too_short(shown: str) -> bool:
    """Whether the result of `shown_name` is too short for a name."""
    return len(normalise_name(shown).encode()) < MIN_NAME_BYTES


def name_to_store(name: str) -> str:
    """The result of `shown_name`; raises `UnusableInput` if that result cannot be a name."""
    shown = shown_name(name)
    if reason := injection_reason(shown):
        raise UnusableInput(f"{shown!r} cannot be a name. {reason}", "Say what the entity is called.")
    if has_secret(shown):
        raise UnusableInput("The name holds what looks like a secret.", "Say what the entity is called.")
    if is_too_short(shown):
        raise UnusableInput(f"{shown!r} is too short for a name.", "A name has three characters or more.")
    return shown
