"""The roster: the speakers of a window, known before extraction.

The person behind a nameless `user` role is one entity of the namespace, the owner. A name that the person gives is
added to the owner. A name that does not fit the known one belongs to another owner, of that scope, or to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


_PARTICLES = "de|da|do|dos|del|della|di|la|le|van|von|vom|zu|der|den|ter|ten|bin|ibn|al|el|y".split("|")
_PARTICLE = rf"(?:{'|'.join(_PARTICLES)}|Mc|O['’])"
_WORD = r"(?:[A-ZÀ-ÞŁŠŽČĆŚŻŹŐŰĞİŞ](?:\.|['’]?[\w-]*[\wÀ-ÿ](?:['’][A-ZÀ-Þ][\w-]+)?))"
_TITLE = r"(?:(?:Dr|Prof|Mr|Mrs|Ms|Mx|Sr|Sra|Srta|Herr|Frau|Doctor|Professor)\.?\s+)*"
_OWN_NAME = rf"{_TITLE}(?P<name>{_WORD}(?:\s(?:{_PARTICLE}\s){{0,2}}{_WORD}){{0,3}})"
_SMALL = r"(?P<name>[^\W\d_][^\W\d_'’-]{2,20}(?:\s[^\W\d_][^\W\d_'’-]{2,20})?)"
_SMALL_END = r"(?=\s*(?:[.,;!)]|$)|\s(?:and|but|i'm|by the way|y|pero|und|aber)\b)"
# Words before the name of the writer. After these sure ones the name may be in lower case.
_SURE = re.compile(
    r"\b(?:my\s(?:full\s|real\s|first\s)?name(?:\sis|['’]s)|i\s(?:go\sby|am\scalled)|i['’]m\scalled"
    r"|me\sllamo|mi\snombre\s(?:completo\s)?es|ich\shei(?:ß|ss)e|mein\s(?:voller\s)?name\sist)\s"
    r"(?:(?:actually|just|also|auch|übrigens)\s)?",
    re.IGNORECASE,
)
_CAPITAL_ONLY = re.compile(
    r"(?:\b(?:I['’]m|I\sam|i['’]m|i\sam|[Ii]m|[Ss]oy)\s"
    r"|\b(?:[Tt]he\sname(?:['’]s|\sis))\s"
    r"|(?:^|[\n.!?,;]\s*|\b(?:and|but|just|please|can|may|could|to|so)\s)(?:[Pp]lease\s)?(?:[Jj]ust\s)?[Cc]all\sme\s"
    r"|\b(?:everyone|everybody|people|friends|colleagues|they|most)\s(?:\w+\s)?calls?\sme\s"
    r"|\b(?:[Ll]lámame|[Ll]l[aá]menme|[Pp]uedes\sllamarme|me\sdicen|me\sllaman)\s"
    r"|\b(?:[Nn]enn(?:t|en\sSie)?\smich)\s(?:einfach\s|ruhig\s)?)"
)
_I_AM_GERMAN = re.compile(r"\b[Ii]ch\sbin\s(?:(?:die|der)\s)?")
_NAME_AT = re.compile(_OWN_NAME)
_SMALL_AT = re.compile(_SMALL + _SMALL_END)
_GOES_ON = re.compile(
    r"\s*(?:[.,;:!)(\n–—/]|-\s|$)|\s(?:and|from|by|here|but|the|an?|at|in|with|speaking|btw|your|who|working|nice|one"
    r"|i|because|for|again|y|de|pero|tengo|trabajo|vivo|und|aus|aber|ich|mit|komme|arbeite|wohne)\b"
)
_OWNED = re.compile(r"['’]s?\b|\s(?:and|&)\s[A-ZÀ-Þ][\w-]+['’]s\b")
_UNREAL = re.compile(
    r"\b(?:pretend\w*|imagin\w+|suppos\w+|hypothetical\w*|if|wish(?:es|ed)?|character|role-?play\w*|in\sthe\s(?:game|story"
    r"|play|book|film|movie|novel)|no\slonger|used\sto|wenn|as\sthough"
    r"|say(?:s|ing)?\sthat|claim(?:s|ed)?|says?|said|wrote|writes|dijo|dice|sagt[e]?|lyrics?|song|example|e\.g\.)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|never|nunca|nicht|don['’]t|do\snot|isn['’]t)\s[^,;]*$", re.IGNORECASE)
_ALSO_NAMES = word_set("april may june august will mark grace joy hope rose")
_NO_NAME = word_set(words_of("no_persons_names"))
_ING = word_set("sterling ming ling bing ning ting ying jing qing xing king yiling meiling channing manning downing")
_QUOTED = re.compile(
    r"\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|(?<!\w)'[^'\n]{2,300}'(?!\w)"
)
_REPLIED_TO = re.compile(
    r"^(?:On\s.{5,200}\swrote:|El\s.{5,200}\sescribió:|Am\s.{5,200}\sschrieb.{0,80}:|-{3,}\s?(?:Original|Forwarded).*)$",
    re.MULTILINE,
)
_ANOTHERS = re.compile(
    r"^.*\b(?:e?-?mails?|letters?|messages?|notes?|drafts?|post|bio|template|scripts?|wrote|writes?|got|received|sent|forwarded"
    r"|starts?|begins?|reads?|goes|says|went|like|translate|rewrite|proofread|summari[sz]e|correo|carta|traduce|escribe)\b"
    r"[^\n:]*:(?=\s)",
    re.MULTILINE | re.IGNORECASE,
)  # the text after it may be by another person
_SENTENCE_START = re.compile(r"[.!?\n](?:\s|$)")
MAX_CHARS = 20_000
_SPACES, _BLANKS = re.compile(r"[ \t]{2,}"), re.compile(r"\s*\n\s*")
_LOOK_BACK = 200


def introductions(text: str) -> list[str]:
    """The names that the writer of a text gives as their own, in order, each once; doubtful ones are left out.

    "hi, I'm Ilse Brandt", "my name is ilse", "call me Ilse". Quotations do not count.
    """
    names = [" ".join(name.split()).rstrip(".,") for _, name in sorted(_introduced(_own_words(text[:MAX_CHARS])))]
    return list(dict.fromkeys(name for name in names if is_usable(name)))


def _own_words(text: str) -> str:
    """The text without code, quotations and the message that it replies to."""
    # Long runs of blanks cost the patterns below quadratic time.
    bare = _BLANKS.sub("\n", _SPACES.sub(" ", strip_code(text)))
    for sign in (_REPLIED_TO, _ANOTHERS):
        if found := sign.search(bare):
            bare = bare[: found.start()]
    lines = [line for line in bare.split("\n") if not line.lstrip().startswith(">")]
    return _QUOTED.sub('""', "\n".join(lines))


def _introduced(text: str) -> Iterator[tuple[int, str]]:
    """(position, name) of each name that the words before it give to the writer."""
    for sign in _SURE.finditer(text):
        if not _is_unreal(text, sign.start()):
            if name := _name_after(text, sign.end(), sure=True):
                yield sign.end(), name
            elif (small := _SMALL_AT.match(text, sign.end())) and _is_name(small["name"]):
                yield sign.end(), small["name"].title()
    for signs in (_CAPITAL_ONLY, _I_AM_GERMAN):
        for sign in signs.finditer(text):
            name = "" if _is_unreal(text, sign.start()) else _name_after(text, sign.end())
            if name and (" " in name or signs is not _I_AM_GERMAN):  # a lone German noun has a capital, too
                yield sign.end(), name


def _is_unreal(text: str, at: int) -> bool:
    """Whether the sentence up to there supposes, denies or quotes."""
    before = _SENTENCE_START.split(text[max(at - _LOOK_BACK, 0) : at])[-1]
    return bool(_UNREAL.search(before) or _DENIED.search(before))


def _name_after(text: str, at: int, *, sure: bool = False) -> str:
    """The name that begins there; empty if the words after it exclude a name."""
    found = _NAME_AT.match(text, at)
    if not found or _OWNED.match(text, found.end()) or not (sure or _GOES_ON.match(text, found.end())):
        return ""
    return found["name"] if _is_name(found["name"], sure=sure) else ""


def _is_name(name: str, *, sure: bool = False) -> bool:
    """Whether all words may be parts of a person's name: no role, nationality, condition or tool."""
    words = [word.strip(".").lower() for word in name.split()]
    if sure and len(words) > 1:
        words = words[:1]  # "my name is Grace Kelly King"
    return (
        bool(words)
        and all(
            word not in _NO_NAME
            and (may_be_a_name(word) or word in _PARTICLES or (sure and word in _ALSO_NAMES))
            and type_of(word, "") not in ("tool", "language")
            and not (word.endswith("ing") and len(word) > 3 and word not in _ING)
            and not word.isnumeric()
            for word in words
        )
        and not name.isupper()
    )
