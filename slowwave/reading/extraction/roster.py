"""The roster: the speakers of a window, known before extraction.

The person behind a nameless `user` role is one entity of the namespace, the owner. A name that the person gives is
added to the owner. A name that does not fit the known one belongs to another owner, of that scope, or to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from slowwave.common.lexicon import words_of
from slowwave.common.records import RosterEntry, Turn
from slowwave.common.text import normalise_name, row_id, strip_code, word_set

from .names import is_usable, may_be_a_name, type_of

UNNAMED = "Owner"
"""The shown name of an owner whose name is unknown."""
GENERIC_NAMES = ("user", "the user")
"""Names that always find the owner."""
NAMESPACE = ""
"""The scope of the owner of a whole namespace."""
_NAMELESS = word_set("user human customer you me myself person speaker owner")
_NAME = re.compile(r"^[^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,4}$")
_MENTIONED = re.compile(
    r"[^\W\d_a-zß-ÿ][\w'’&.-]*(?:[ \t]+(?:(?:de|da|van|von|of|the|del|la)[ \t]+){0,2}[^\W\d_a-zß-ÿ][\w'’&.-]*){0,3}"
)
_MOST_ENTRIES = 40


@dataclass(frozen=True, slots=True)
class Owner:
    """The person behind the nameless role `user`: of a namespace, or of one scope of it.

    `names` are all known names of the person, without the generic ones; `is_new`: no row is stored yet.
    """

    entity_id: str
    name: str = UNNAMED
    names: tuple[str, ...] = ()
    scope: str = NAMESPACE
    is_new: bool = False

    @property
    def is_named(self) -> bool:
        """Whether any name is known."""
        return bool(self.names)


def owner_id(scope: str = NAMESPACE) -> str:
    """The entity of an owner."""
    return row_id("e", "owner", scope) if scope else row_id("e", "owner")


def is_nameless_row() -> pl.Expr:
    """Whether the owner wrote a message: role `user`, without a name of its own as speaker."""
    plain = pl.col("speaker").fill_null("").str.strip_chars().str.to_lowercase()
    return ((pl.col("role") == "user") & plain.is_in([*_NAMELESS, ""])).fill_null(False)


def any_nameless(messages: pl.DataFrame) -> bool:
    """Whether the owner wrote any of these messages."""
    return bool(messages.select(is_nameless_row().any()).item())


def owner_of(owners: Mapping[str, Owner], scope: str | None) -> Owner:
    """The owner who speaks in a scope."""
    return owners.get(scope or NAMESPACE, owners[NAMESPACE])


def with_owner_names(messages: pl.DataFrame, owners: Mapping[str, Owner]) -> pl.DataFrame:
    """The messages (role, speaker, scope) with the owner's name as speaker where they have none of their own."""
    names = {scope: owner.name for scope, owner in owners.items()}
    name = pl.col("scope").fill_null(NAMESPACE).replace_strict(names, default=owners[NAMESPACE].name)
    return messages.with_columns(speaker=pl.when(is_nameless_row()).then(name).otherwise("speaker"))


def is_name(text: str) -> bool:
    """Whether a text can be a person's name: one to five words that begin with a letter, the first with a capital."""
    return (
        bool(_NAME.match(text))
        and (text[0].isupper() or not text[0].isascii())
        and normalise_name(text) not in _NAMELESS
    )


def is_same_person(name: str, other: str) -> bool:
    """Whether one name can be short for the other: all its words, or their initials, are among the other's."""
    a, b = (normalise_name(each).replace(".", "").split() for each in (name, other))
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    return all(any(word == full or (len(word) == 1 and full.startswith(word)) for full in long) for word in short)


def may_be(name: str, known: Sequence[str]) -> bool:
    """Whether a person with these names may have this one: one of them, or a short or full form of all of them."""
    plain = normalise_name(name)
    return any(plain == normalise_name(each) for each in known) or all(is_same_person(name, each) for each in known)


def with_names(
    owners: Mapping[str, Owner], learned: Iterable[tuple[str, str]]
) -> tuple[dict[str, Owner], list[tuple[str, str]]]:
    """The owners after these names (scope, name) were given, and the names that were refused.

    The first name counts, and a fuller form replaces it. A name that does not fit the known one makes an owner of its
    scope, if it was given in a scope of its own; else it is refused, and a person must decide.
    """
    after = dict(owners)
    refused: list[tuple[str, str]] = []
    for scope, name in learned:
        owner = owner_of(after, scope)
        if not is_name(name):
            refused.append((scope, name))
        elif not owner.is_named or may_be(name, owner.names):
            after[owner.scope] = _named(owner, name)
        elif scope not in ("global", NAMESPACE, owner.scope):
            after[scope] = _named(Owner(owner_id(scope), scope=scope, is_new=True), name)
        else:
            refused.append((scope, name))
    return after, refused


def _named(owner: Owner, name: str) -> Owner:
    names = tuple(dict.fromkeys((*owner.names, name)))
    return replace(owner, name=max(names, key=lambda each: (len(each.split()), each != each.lower())), names=names)


def mentioned_names(turns: Sequence[Turn]) -> list[str]:
    """Capitalised words and groups of words of a window, normalised: possible names of stored entities."""
    found: dict[str, None] = {}
    for turn in turns:
        for match in _MENTIONED.finditer(turn.text):
            words = match[0].split()
            for size in range(len(words), 0, -1):
                for start in range(len(words) - size + 1):
                    found.setdefault(normalise_name(" ".join(words[start : start + size]).strip(".'’-")))
    return [name for name in found if len(name) > 1]


def roster(
    turns: Sequence[Turn], owner: Owner, speakers: Sequence[RosterEntry], others: Sequence[RosterEntry]
) -> tuple[RosterEntry, ...]:
    """The numbered entries of a window: first the speakers, then the mentioned people and things, each once."""
    entries: list[RosterEntry] = []
    if any(turn.role == "user" and turn.speaker == owner.name for turn in turns):
        also = tuple(name for name in owner.names if normalise_name(name) != normalise_name(owner.name))
        entries.append(RosterEntry(0, owner.name, "person", owner.entity_id, also, "user"))
    if any(turn.role == "assistant" for turn in turns):
        entries.append(RosterEntry(0, "Assistant", "tool", "", (), "assistant"))
    seen = {entry.entity_id for entry in entries} - {""}
    named = {normalise_name(entry.name) for entry in entries}
    for entry in (*speakers, *others):
        name = normalise_name(entry.name)
        if (entry.entity_id and entry.entity_id in seen) or name in named or len(entries) >= _MOST_ENTRIES:
            continue
        seen.add(entry.entity_id)
        named.add(name)
        entries.append(entry)
    return tuple(replace(entry, number=number) for number, entry in enumerate(entries, 1))


# Self-introductions of the writer of a text, in English, Spanish and German. A wrong name would join two people, so a
# doubtful name is not taken: "I'm Swiss", "I'm Team Lead", "call me later".


_PARTICLE = r"(?:de|da|do|dos|del|di|la|van|von|der|den|bin|al|el)"
_WORD = r"[^\W\d_a-zß-ÿ][\w'’-]*\w\.?"
_TITLE = r"(?:(?:Dr|Prof|Mr|Mrs|Ms|Herr|Frau)\.?\s+)?"
_NAME_AT = re.compile(rf"{_TITLE}(?P<name>{_WORD}(?:\s(?:{_PARTICLE}\s){{0,2}}{_WORD}){{0,3}})")
_SMALL_AT = re.compile(r"(?P<name>[^\W\d_]{3,20}(?:\s[^\W\d_]{3,20})?)(?=\s*(?:[.,;!)]|$)|\s(?:and|but|y|pero|und)\b)")
# Words before the name of the writer. After the sure ones the name may be in lower case.
_INTRODUCES = re.compile(
    r"(?P<sure>\b(?:my\s(?:full\s|real\s|first\s)?name(?:\sis|['’]s)|me\sllamo|mi\snombre\ses|ich\shei(?:ß|ss)e"
    r"|mein\sname\sist)\s)"
    r"|\b(?:i['’]m|i\sam|soy|the\sname(?:['’]s|\sis)|call\sme|everyone\scalls\sme|puedes\sllamarme|nenn\smich)\s",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\s*(?:[.,;:!)\n–—]|-\s|$)|\s(?:and|from|by|here|but|with|y|und)\b")
_OWNED = re.compile(r"['’]s?\b|\s(?:and|&)\s[A-ZÀ-Þ][\w-]+['’]s\b")
_UNREAL = re.compile(
    r"\b(?:pretend\w*|imagin\w+|suppos\w+|if|wish\w*|character|role-?play\w*|in\sthe\s(?:game|story|play|book|film)"
    r"|no\slonger|used\sto|wenn|say(?:s|ing)?|said|claim\w*|writes?|wrote|goes|starts?\swith|dijo|dice|sagte?|example)\b"
    r"|\b(?:not|never|nunca|nicht|don['’]t|do\snot|isn['’]t)\s[^,;]*$",
    re.IGNORECASE,
)
_ALSO_NAMES = word_set("april may june august will mark grace joy hope rose")
_NO_NAME = word_set(words_of("no_persons_names"))
_QUOTED = re.compile(r"\"[^\"\n]{0,300}\"|[“„][^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|(?<!\w)'[^'\n]{2,300}'(?!\w)")
_BY_ANOTHER = re.compile(
    r"^(?:(?:On|El|Am)\s.{5,200}\s(?:wrote|escribió|schrieb).{0,80}:|-{3,}\s?(?:Original|Forwarded).*"
    r"|.*\b(?:e?-?mails?|letters?|messages?|notes?|drafts?|posts?|bio|template|scripts?|translate|rewrite|correo|carta)\b"
    r"[^\n:]*:(?=\s))",
    re.MULTILINE | re.IGNORECASE,
)
"""A line after which the text may be by another person."""
_SENTENCE_START = re.compile(r"[.!?\n](?:\s|$)")
MAX_CHARS = 20_000
_SPACES, _BLANKS = re.compile(r"[ \t]{2,}"), re.compile(r"\s*\n\s*")
_LOOK_BACK = 200


def introductions(text: str) -> list[str]:
    """The names that the writer of a text gives as their own, in order, each once; doubtful ones are left out.

    "hi, I'm Ilse Brandt", "my name is ilse", "call me Ilse". Quotations do not count.
    """
    own = _own_words(text[:MAX_CHARS])
    found = (_name_after(own, sign) for sign in _INTRODUCES.finditer(own) if not _is_unreal(own, sign.start()))
    names = dict.fromkeys(" ".join(name.split()).rstrip(".,") for name in found)
    return [name for name in names if is_usable(name)]


def _own_words(text: str) -> str:
    """The text without code, quotations and the message that it replies to."""
    # Long runs of blanks cost the patterns below quadratic time.
    bare = _BLANKS.sub("\n", _SPACES.sub(" ", strip_code(text)))
    if found := _BY_ANOTHER.search(bare):
        bare = bare[: found.start()]
    lines = [line for line in bare.split("\n") if not line.lstrip().startswith(">")]
    return _QUOTED.sub('""', "\n".join(lines))


def _is_unreal(text: str, at: int) -> bool:
    """Whether the sentence up to there supposes, denies or quotes."""
    return bool(_UNREAL.search(_SENTENCE_START.split(text[max(at - _LOOK_BACK, 0) : at])[-1]))


def _name_after(text: str, sign: re.Match[str]) -> str:
    """The name that begins after these words; empty if the words after it exclude a name."""
    at, is_sure = sign.end(), bool(sign["sure"])
    if (found := _NAME_AT.match(text, at)) and not _OWNED.match(text, found.end()):
        is_name = (is_sure or _GOES_ON.match(text, found.end())) and _is_name(found["name"], sure=is_sure)
        return found["name"] if is_name else ""
    small = _SMALL_AT.match(text, at) if is_sure else None
    return small["name"].title() if small and _is_name(small["name"]) else ""


def _is_name(name: str, *, sure: bool = False) -> bool:
    """Whether all words may be parts of a person's name: no role, nationality, condition, tool or activity."""
    words = [word.strip(".").lower() for word in name.split() if not re.fullmatch(_PARTICLE, word)]
    return not name.isupper() and all(
        word not in _NO_NAME
        and (may_be_a_name(word) or (sure and word in _ALSO_NAMES))
        and type_of(word, "") not in ("tool", "language")
        and (sure or not (word.endswith("ing") and len(word) > 5))
        for word in words[: 1 if sure else None]
    )
