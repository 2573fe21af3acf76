"""A sentence as clauses: subject, negation or wish, verb, and the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from slowwave.text import word_set

from .names import is_pronoun

_BORDER = re.compile(
    r"(?:[,;:–—]\s+(?:(?:and|but|so|because|though|although|while|then|or)\s+)?|\s(?:and|but|so|because"
    r"|though|although|while)\s+)"
    r"(?=(?:[Ii](?:['’]\w+)?|[Ww]e(?:['’]\w+)?|[Mm]y|[Oo]ur|[Hh]e(?:['’]s)?|[Ss]he(?:['’]s)?"
    r"|[A-ZÀ-Þ][\w'’-]+(?:\s[A-ZÀ-Þ]\S+)?(?=\s(?!(?:and|or|for|in|on|at|with|as|to|from|of|by)\b)[a-z]))\s)"
)
_LEAD_IN = re.compile(
    r"(?:Last|This|Next|From|As of|Yesterday|Today|Tonight|Now|Recently|Lately|Then|Once|Before that|After that|In|On"
    r"|Since|At|For|During|A few|Two|Three|One|Earlier)\b"
    r"[^,;:.!?]{0,40}?,?\s(?=(?:I|we|my)\b)"
)
_FIRST = re.compile(r"(?:I|i|[Ww]e)(?:['’](?P<short>m|ve|ll|d|re))?(?=[\s,]|$)")
OFFICES = word_set(
    """deputy treasurer chairman chairwoman chairperson president secretary director captain mayor pastor successor
    predecessor caretaker janitor plumber electrician carpenter gardener nanny babysitter vet surgeon nurse midwife
    architect notary"""
)
"""Roles of people that firms and things have as well: "my vet is Green Paws"."""
ROLES = OFFICES | word_set(
    """sister brother mother father mum mom mama dad papa parents husband wife spouse partner girlfriend
    boyfriend fiancé fiancée fiance fiancee son daughter kid kids child children baby cousin uncle aunt
    nephew niece grandmother grandfather grandma grandpa granny grandson granddaughter friend manager
    boss colleague coworker co-worker teammate mentor teacher tutor coach doctor therapist dentist
    neighbour neighbor roommate flatmate housemate landlord landlady client dog cat puppy kitten pet
    horse rabbit parrot hamster twin stepmother stepfather stepson stepdaughter godmother godfather
    godson goddaughter ex assistant lawyer accountant professor supervisor project team company employer
    startup band club app store shop studio product website"""
)
PEOPLE = ROLES - word_set(
    "dog cat puppy kitten pet horse rabbit parrot hamster project team company employer startup band club "
    "app store shop studio product website"
)
ANIMALS = word_set("dog cat puppy kitten pet horse rabbit parrot hamster")
_OWNED = re.compile(
    r"(?:[Mm]y|[Oo]ur)\s(?:(?P<adjective>older|younger|little|big|elder|youngest|oldest|best|old|new"
    r"|former|late|current|twin|good|dear|eldest|own|direct|childhood)\s){0,2}"
    r"(?P<role>[a-zé][a-zé-]{1,20})(?P<in_law>-in-law)?(?:,)"
    r"?(?:\s(?P<name>[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30})?))?,?(?=\s|['’]s\s)"
)
FORMER = re.compile(
    r"\bformer\s|\bold\s(?=(?:manager|boss|supervisor|landlord|landlady|roommate|flatmate|housemate|team|company|employer)\b)",
    re.IGNORECASE,
)
"""What is said before a role that is over; an old friend is still one, an old teacher may be, and an ex is an ex."""
_THIRD = re.compile(r"(?:[Hh]e|[Ss]he)(?:['’](?P<short>s|ll|d))?(?=\s)")
_NAMED = re.compile(
    r"(?P<name>[A-ZÀ-Þ][\w+#.&-]{2,40}(?:['’](?!s\b)\w+)?(?:\s(?:(?:de|da|von|van"
    r"|of)\s)?[A-ZÀ-Þ][\w+#.&-]{1,40}){0,4})(?:['’](?P<short>s|ll|d))?(?=\s)"
)
_THE = re.compile(
    r"(?:[Tt]he|[Oo]ur|[Tt]his)\s(?P<name>(?:[a-zA-Z][\w+#.-]{1,30}\s){0,3}?[a-zA-Z][\w+#.-]{1,30})(?=\s)"
)

_NEGATIONS = word_set(
    """not never don't doesn't didn't isn't wasn't aren't weren't haven't hasn't hadn't won't wouldn't
    can't cannot couldn't shouldn't ain't dont doesnt didnt cant"""
)
_BE = word_set("am is are was were be been being 's 're 'm isn't aren't wasn't weren't ain't")
_HAVE = word_set("have has had 've haven't hasn't hadn't")
_DO = word_set("do does did don't doesn't didn't dont doesnt didnt")
_ADVERBS = word_set(
    """just really also still already now currently actually always usually recently finally even only
    absolutely totally definitely sometimes often mostly all both then first honestly personally
    officially lately once basically very so quite pretty happily proudly never not simply mainly
    generally normally typically regularly constantly truly especially particularly literally kinda
    directly occasionally since ever probably maybe eventually soon successfully"""
)
_WISHES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), relation)
    for pattern, relation in (
        (
            r"(?:want|wants|wanted|hope|hopes|hoping|hoped|wish|wishes|dream|dreams|dreaming|long"
            r"|longs)\s(?:to|of|about)\s|wanna\s",
            "wants_to",
        ),
        (r"(?:like|love|prefer)\sto\s(?=\w)", "would"),
        (r"looking\sforward\sto\s", "looks_forward_to"),
        (r"(?:excited|keen|eager|hoping|aiming|looking|determined)\sto\s", "wants_to"),
        (r"(?:aim|aims|strive|strives)\sto\s", "wants_to"),
        (r"(?:plan|plans|planned|planning|intend|intends|intending|about|set|scheduled)\s(?:to|on)\s", "plans_to"),
        (r"going\sto\s(?!an?\s|the\s|my\s|[A-Z])", "plans_to"),
        (r"gonna\s", "plans_to"),
        (r"thinking\s(?:about|of)\s(?=\w+ing\b)", "considers"),
        (r"(?:consider|considers|considering|contemplating)\s", "considers"),
        (r"(?:try|tries|trying)\sto\s", "tries_to"),
        (r"tried\sto\s", "tried_to"),
        (r"(?:need|needs)\sto\s", "needs_to"),
    )
)
_MODALS = {
    "will": "plans_to", "'ll": "plans_to", "won't": "plans_to", "might": "considers", "may": "considers",
    "would": "would", "'d": "would",
    "wouldn't": "would", "could": "could", "couldn't": "could", "can": "can", "can't": "can", "cannot": "can",
    "should": "should",
    "shouldn't": "should", "must": "should", "cant": "can",
}  # fmt: skip
_TOKEN = re.compile(r"\s*([\w'’-]+)(,?)")


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: `kind` of subject is first, owned, third or named, `opening` its words; `rest` follows the verb."""

    text: str
    start: int
    kind: str
    opening: str = ""
    name: str = ""
    role: str = ""
    plural: bool = False
    negated: bool = False
    ended: bool = False
    wish: str = ""
    modal: str = ""
    copula: bool = False
    perfect: bool = False
    head: str = ""
    rest: str = ""
    phrase: str = ""


def split(sentence: str) -> list[tuple[int, str]]:
    """The clauses of a sentence with their offsets; each begins with something that may be its subject."""
    lead = _LEAD_IN.match(sentence)
    first = lead.end() if lead else 0
    borders = [
        found.span() for found in _BORDER.finditer(sentence) if not _joins_subjects(sentence, first, *found.span())
    ]
    starts = [first, *(end for _, end in borders)]
    ends = [*(start for start, _ in borders), len(sentence)]
    return [(start, sentence[start:end]) for start, end in zip(starts, ends, strict=True) if end - start > 3]


def _joins_subjects(sentence: str, start: int, border: int, end: int) -> bool:
    """Whether the words before are one more subject of the clause after them: "Lena and Mia live"."""
    parts = re.split(r",\s(?!and\b)|,?\sand\s", sentence[start:border])
    if sentence[border:end].startswith((",", ";", ":", "–", "—")) and len(parts) == 1:
        return False  # "Yes, Mia lives in Kiel"
    has_no_verb = all(_subject(f"{part} ", 0)[1] >= len(part) > 1 for part in parts)
    return has_no_verb and not _FIRST.match(sentence, end)


def parse(text: str, start: int, is_verb: Callable[[str], bool]) -> Clause | None:
    """The clause as subject, modality, head verb and rest; None without a known subject at its start."""
    clause, at = _subject(text, start)
    return _predicate(replace(clause, opening=text[:at]), at, is_verb) if clause else None


def _subject(text: str, start: int) -> tuple[Clause | None, int]:
    if found := _FIRST.match(text):
        plural = text[0] in "wW"
        return _with_short(Clause(text, start, "first", plural=plural), found["short"]), found.end()
    if found := _THIRD.match(text):
        return _with_short(Clause(text, start, "third"), found["short"]), found.end()
    if (found := _OWNED.match(text)) and found["role"] in ROLES and not text[found.end() :].startswith(("'s", "’s")):
        role = found["role"] + (found["in_law"] or "")
        return Clause(
            text, start, "owned", name=(found["name"] or "").removesuffix("'s").removesuffix("’s"), role=role
        ), found.end()
    if found := _NAMED.match(text):
        return _with_short(Clause(text, start, "named", name=found["name"]), found["short"]), found.end()
    if found := _THE.match(text):
        return Clause(text, start, "the", name=found["name"]), found.end()
    return None, 0


def _with_short(clause: Clause, short: str | None) -> Clause:
    if short in ("m", "re", "s"):
        return replace(clause, copula=True)
    if short == "ve":
        return replace(clause, perfect=True)
    return replace(clause, modal=_MODALS["'" + short]) if short in ("ll", "d") else clause


def _predicate(clause: Clause, at: int, is_verb: Callable[[str], bool]) -> Clause | None:
    """Reads auxiliaries, negation, adverbs and wishes; the head is the first other word."""
    text = clause.text
    negated, ended, modal, copula, perfect = clause.negated, False, clause.modal, clause.copula, clause.perfect
    wish = ""
    done = wished = at
    for _ in range(9):
        found = _TOKEN.match(text, done)
        if not found:
            break
        word = found[1].lower().replace("’", "'")
        if word == "no" and text[found.end() :].lower().startswith(" longer"):
            ended, done = True, found.end() + 7
            continue
        if word in _NEGATIONS:
            negated = True
        if word in _MODALS:
            modal = _MODALS[word]
        elif word in _BE:
            copula = True
        elif word in _HAVE and _is_auxiliary(text, found.end(), is_verb):
            perfect = True
        elif (
            word not in _NEGATIONS and word not in _ADVERBS and not (word in _DO and _helps(text, found.end(), is_verb))
        ):
            if not wish and (wanted := _wish(text, found.start(1), copula, modal)):
                relation, done = wanted
                wish, wished = relation, done
                continue
            break
        done = found.end()
    found = _TOKEN.match(text, done)
    head = found[1].lower().replace("’", "'") if found else ""
    use_copula = copula and not (head and is_verb(head) and head not in ("like", "set", "fixed", "open"))
    return replace(
        clause, negated=negated, ended=ended, modal=modal, copula=copula, perfect=perfect, wish=wish,
        head="be" if use_copula else head,
        rest=text[done:].strip() if use_copula or not found else text[found.end() :].strip(),
        phrase=text[wished if wish else done :].strip(),
    )  # fmt: skip


def _wish(text: str, at: int, copula: bool, modal: str) -> tuple[str, int] | None:
    for pattern, relation in _WISHES:
        if found := pattern.match(text, at):
            if relation == "would" and modal != "would":
                return None
            if relation == "plans_to" and found.group().lower().startswith(("about", "going", "set")) and not copula:
                return None
            return ("wants_to" if relation == "would" else relation), found.end()
    return None


def _is_auxiliary(text: str, at: int, is_verb: Callable[[str], bool]) -> bool:
    """Whether "have" stands before a participle: "have worked", "have never been"."""
    ahead = _TOKEN.match(text, at)
    if not ahead:
        return False
    word = ahead[1].lower()
    return (
        word in _BE
        or word in ("not", "never", "just", "already", "always", "also", "recently", "finally", "since", "had", "got")
        or (word.endswith(("ed", "en")) or is_verb(word))
    )


def _helps(text: str, at: int, is_verb: Callable[[str], bool]) -> bool:
    """Whether "do" stands before another verb: "do not like", "does like"."""
    ahead = _TOKEN.match(text, at)
    return bool(ahead) and (ahead[1].lower() in ("not", "never", "really", "still") or is_verb(ahead[1].lower()))  # type: ignore[index]


# Where a noun phrase ends, and whether it names anything at all.


ACTS = r"(?:live|work|love|hate|prefer|drink|eat|play|speak|study|teach|own|sing|drive|write|build|make|take|keep)"
"""Verbs that continue a sentence without a second subject: "I work at Acme and live in Bath"."""
_STOP = re.compile(
    r"[,;!?()\[\]…–—]|[.:](?!\d)|\s-\s|\s(?:in|on|at|for|with|as|since|because|but|which|who|that|where"
    r"|when|while|so|to|from|after|before|until|till|during|by|through|though|although|if|than|without"
    r"|except"
    r"|about|and\s(?:i|we|he|she|they|it|my|the|now|have|am|was|is|has|can|will|had|then|i'm|it's|a|an"
    r"|also|not|our|want|need|use|like|think|feel|know|got|get|went|did|\w{3,}ed|\w{3,}s\sto)\b"
    rf"|and\s{ACTS}(?=\s\w)|yesterday"
    r"|today|tomorrow|tonight|last|next|this|now|anymore|any\smore|again|too|also|either"
    r"|recently|lately|already|every|a\slot|a\sfew|so\smuch|very\smuch|a\scouple|ago|these\sdays|instead"
    r"|rather|right|straight|there|here|back|together|two|three|once|twice|almost|only|whenever|just"
    r"|years?|or|is|are|was"
    r"|have|has|has\shad)(?=[\s,.;!?:]|$)",
    re.IGNORECASE,
)
_ADJECTIVE = re.compile(r"(?:^|\s)(?:a|an)\s[a-z-]+$")
_LISTED = re.compile(
    r",\s(?!(?:i|we|it|he|she|they|you|but|so|and|or|which|who|because|the|a|an|my|then|that|this|not|as"
    r"|like|especially|can|how|what)\b)[a-z-]+(?=[\s,.])",
    re.IGNORECASE,
)
ARTICLE = re.compile(r"^(?:(?:a|an|the|some|my|our|their|his|her|both|all|any|more)\s)+", re.IGNORECASE)
_BAD_START = re.compile(
    r"^(?:that|this|these|those|it|its|you|your|yourself|me|us|him|them|myself|how|what|when|where|who|why"
    r"|whether|if|to|so|not|no|too|very|really|up|out|off|down|over|around|about|away|on|in"
    r"|into|through|with|for|by|like|as|and|or|but|more|much|many|lots?|everything|something|anything"
    r"|nothing|everyone|things?|here|there|home|sure|sense|fun|well|forward|ahead|back|each|one|ones"
    r"|another"
    r"|everybody|at|from|of|than|during|until|since|someone|anyone|nobody|such|having|being|getting|seeing"
    r"|hearing|all|both|any|some|others?|part|place|rid|way|lots?|tons?|bit|ready|following|similar|above"
    r"|below|own|longer|farther|faster|harder|late|early|half|first|last|next)\b(?!-)",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[^\W_]{2}")
ADDRESSED = re.compile(r"\byou(?:rs?)?\b", re.IGNORECASE)
_FILLER = re.compile(
    r"^(?:really|just|also|always|quite|very|so|still|now|currently|especially|particularly|absolutely"
    r"|actually|mostly|only|even|already|both|either)\s",
    re.IGNORECASE,
)


def read_object(text: str) -> str:
    """The noun phrase at the start of a text, without articles, of eight words at most; empty if none or a pronoun."""
    text = text[:160]
    while filler := _FILLER.match(text):
        text = text[filler.end() :]
    article = ARTICLE.match(text)
    body = text[article.end() :] if article else text
    stop = _STOP.search(body)
    if (
        stop
        and stop.group() == ","
        and _ADJECTIVE.search(text[: (article.end() if article else 0) + stop.start()])
        and (more := _LISTED.match(body, stop.start()))
    ):
        stop = _STOP.search(body, more.end()) or more
    body = (body[: stop.start()] if stop else body).strip(" .,'\"“”’")
    body = body.replace('"', "") if body.count('"') % 2 else body
    if (
        not _LETTERS.search(body)
        or ADDRESSED.search(body)
        or _BAD_START.match(body)
        or is_pronoun(body)
        or len(body) > 80
    ):
        return ""
    return " ".join(body.split()[:8])
