"""The keyless extractor: rules read a window of messages instead of a model.

A clause with a known verb becomes a relation; every other durable sentence becomes an observation, as a whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from slowwave.filters import durability
from slowwave.lexicon import verbs
from slowwave.records import Turn, Window
from slowwave.resolution.mentions import read_kin
from slowwave.text import sentences, word_set

from . import clauses, decisions, names, relations
from .coreference import quote
from .events import moved_event
from .readings import (
    FIRST_PERSON,
    JOIN_CHARS,
    MAX_STATEMENT_BYTES,
    PARSED_CHARS,
    PERSONAL,
    SECOND_PERSON,
    UNCONFIRMED,
    UNNAMED_TYPES,
    MessageReading,
    WindowReading,
    add,
    add_accepted,
    flush,
    mention,
    speaker_name,
    statement_of,
)
from .relations import Triple
from .reversals import Reversal, find_reversals

_OF_THINGS = word_set("uses does_not_use runs_on does_not_run_on version called works_with has_role is_a")
_OWNED_NAME = re.compile(
    r"\b(?:[Mm]y|[Oo]ur)\s(?:(?:older|younger|little|big|best|old|new|former"
    r"|twin)\s)?(?P<role>[a-zé-]{2,20}),?\s(?P<name>[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30})?)"
)
_WHOSE = re.compile(r"\b(?P<who>[A-ZÀ-Þ][\w-]{2,30})['’]s\s(?P<role>[a-z-]{2,20}),?\s(?P<name>[A-ZÀ-Þ][\w-]{2,30})")
_LOWER_START = re.compile(r"(?<=[a-z]{2}[.!?])(?<!etc\.)(?<!vs\.)(?<!no\.)(?<!approx\.)\s+(?=[a-z])")
_PRONOUN_START = re.compile(r"(?:[Hh]e|[Ss]he)(?=['’\s])")
_VERB_NEXT = re.compile(
    r"\s(?:is|was|has|had|will|would|does|did|can|also|never|still|now|vive|es|está|tiene|[a-z]{3,}(?:s"
    r"|ed))\b(?<!s\sas)"
)
_ELIDED = re.compile(
    r"^(?P<adverb>(?:Just|Finally|Recently|Still|Also|Already|Really)\s)?(?P<verb>(?i:been(?=\s(?:\w+ing"
    r"|to)\b)|gonna|got|had|went|started|finished|bought|saw|took|made|tried|signed|moved"
    r"|joined|met|built|wrote|read|learned|switched|decided|sold|adopted|visited|attended|quit|lost|left"
    r"|won|opened|launched|graduated|love|hate|prefer))\b"
    r"(?=\s(?!by\b|in\spull|that\b|this\b|you|how\b|it\b|the\sway|be\s))"
)


_SUPPOSED = re.compile(
    r"\b(?:(?:goes|says|said|writes|wrote|asked|replied)(?:\s\w+){0,2}:\s|if|unless|suppos(?:e|ing)|imagine|pretend|assuming|hypothetically|[Oo]nce\s$"
    r"|for\s(?:the\ssake|argument)|in\s(?:\w+\s){1,2}?(?:story|novel|dream|book(?!\sclub)|film|movie|play|script|scenario))",
    re.IGNORECASE,
)
_BEARER = r"[A-ZÀ-Þ][\w'’-]+(?:\s[A-ZÀ-Þ][\w'’-]+)?"
_INTRODUCED = re.compile(
    r"(?:(?:there|all|everyone|team),\s)?(?:(?:I['’]m|I am|[MmTt](?:y|he) name(?:['’]s| is)|[Tt]his is)\s+"
    rf"(?P<name>{_BEARER})|(?P<here>{_BEARER}) (?:here|speaking))(?:[,.!]|\sand\b|$)\s*(?:and\s)?"
)
_STILL = re.compile(r"\b(?:it|them|that|one|again|still|less|more|only|just|every|even|once|too|also|sometimes)\b")
_AIMS = word_set("wants_to plans_to considers")


def extract_window(window: Window) -> dict[str, Any]:
    """Judgements, entities and facts of the window's new messages, in the form of a model's answer (S2-18)."""
    speakers = frozenset(
        turn.speaker for turn in window.turns if turn.role in ("user", "assistant") and len(turn.speaker) > 2
    )
    reader = WindowReading(
        window, speakers, {part for name in speakers for part in (name.lower(), *name.lower().split())}
    )
    if any(turn.role == "assistant" for turn in window.turns):
        reader.user_text = " ".join(turn.text for turn in window.turns if turn.role == "user").lower()
    judgements: list[dict[str, Any]] = []
    for turn in window.turns:
        if turn.is_context:
            continue
        message = _read(reader, turn)
        durable = bool(message.facts)
        judgements.append({"message": turn.index, "durable": durable, "reason": "" if durable else message.reason})
        reader.facts.extend(message.facts)
    _join_other_names(reader)
    entities = [
        {"name": name, "type": kind or names.type_of(name), "summary": None} for name, kind in reader.entities.items()
    ]
    return {"messages": judgements, "entities": entities, "facts": reader.facts}


def _join_other_names(reader: WindowReading) -> None:
    """Facts about "Peti" are about Petra Novak where a fact, or the front matter of her note, gives her that name."""
    given = {(fact["object"], fact["subject"]) for fact in reader.facts if fact["relation"] == "known_as"}
    bearers = Counter(alias for alias, _ in given)
    whole = {alias: name for alias, name in given if bearers[alias] == 1 and _is_short_form(reader, alias, name)}
    titles = {turn.speaker: turn.aliases for turn in reader.window.turns if turn.aliases}
    for title, aliases in titles.items():
        if title in reader.entities and (reader.entities[title] or names.type_of(title)) not in UNNAMED_TYPES:
            whole |= dict.fromkeys(aliases, title)
    names_of = {alias: name for alias in whole if (name := _last_name(alias, whole)) != alias}
    for fact in reader.facts:
        fact["subject"] = names_of.get(fact["subject"], fact["subject"])
        if fact["relation"] != "known_as":
            fact["object"] = names_of.get(fact["object"], fact["object"])
    for alias in names_of:
        reader.entities.pop(alias, None)


def _is_short_form(reader: WindowReading, alias: str, name: str) -> bool:
    """Whether a person's other name is a form of the name; "Boss" may be a perfume elsewhere in the text."""
    kinds = {reader.entities.get(alias), reader.entities.get(name)} - {"", None}
    return kinds == {"person"} and any(part[:2] == alias[:2] for part in name.split())


def _last_name(alias: str, whole: Mapping[str, str]) -> str:
    """The name at the end of a chain of other names; the alias itself where the chain is a circle."""
    name, passed = alias, set[str]()
    while name in whole and name not in passed:
        passed.add(name)
        name = whole[name]
    return alias if name in passed else name


def _read(reader: WindowReading, turn: Turn) -> MessageReading:
    message = MessageReading(
        turn, speaker_name(turn), join=max(JOIN_CHARS, min(len(turn.text) // 10, 1500) if len(turn.text) > 1500 else 0)
    )
    prose = durability.prose_of(_without_headings(turn), turn.role)
    message.reason = prose.refused
    if prose.refused:
        return message
    parts = [part for sentence in sentences(prose.text) for part in _LOWER_START.split(sentence)]
    if message.turn.role == "assistant":
        accepted = decisions.accepted_part(reader.window.turns, turn, parts)
        if accepted.sentences:
            add_accepted(reader, message, " ".join(accepted.sentences)[:MAX_STATEMENT_BYTES], accepted.by)
        parts = [sentence for sentence in parts if sentence not in accepted.sentences]
    for i, sentence in enumerate(parts):
        following = parts[i + 1] if i + 1 < len(parts) else ""
        previous = parts[i - 1] if i else ""
        if (
            previous
            and decisions.has_reason(sentence)
            and message.facts
            and message.facts[-1]["relation"].startswith("decided")
        ):
            continue
        _read_sentence(reader, message, sentence[:MAX_STATEMENT_BYTES], following, previous)
    flush(reader, message)
    return message


def _without_headings(turn: Turn) -> str:
    """The text of a passage without the line of headings above it."""
    first, gap, rest = turn.text.partition("\n\n")
    is_heading = turn.role == "document" and gap and "\n" not in first and not first.rstrip().endswith((".", "!", ":"))
    return rest if is_heading else turn.text


def _without_introduction(sentence: str, speaker: str) -> str:
    """The sentence without "I'm Ana," and the like."""
    found = _INTRODUCED.match(sentence)
    if found and (found["name"] or found["here"]).lower() in speaker.lower():
        return sentence[found.end() :]
    return sentence


def _with_subject(found: re.Match[str]) -> str:
    """ "Been to Rome", "Just got a dog": adds the missing "I"."""
    verb = found["verb"].lower()
    lead = "I've" if verb == "been" else "I'm" if verb == "gonna" else "I"
    return f"{lead} {(found['adverb'] or '').lower()}{verb}"


def _read_sentence(
    reader: WindowReading, message: MessageReading, sentence: str, following: str, previous: str
) -> None:
    """Reads one sentence: refused, a relation, or kept for an observation."""
    if message.turn.role == "assistant" and SECOND_PERSON.search(sentence):
        message.reason = message.reason or UNCONFIRMED
        return
    raw = _without_introduction(durability.trim(sentence, reader.speakers), message.speaker)
    if message.turn.role == "user":
        raw = _ELIDED.sub(_with_subject, raw, count=1)
    if message.last_person:
        raw = _PRONOUN_START.sub(lambda _: message.last_person, raw, count=1) if _PRONOUN_START.match(raw) else raw
    bare = durability.without_question(raw) or raw
    reason = durability.refusal_of(bare)
    if not reason and message.turn.role == "user":
        reason = durability.request_of(bare)
    if reason:
        message.reason = message.reason or reason
        return
    spotted = names.spot(bare, reader.known)
    reader.known.update(name.text.lower() for name in spotted)
    found = _distinct(_triples(message, bare[:PARSED_CHARS], following, spotted))
    taken_back = _taken_back(bare, previous) if message.turn.role != "assistant" else ()
    if found:
        flush(reader, message)
        for number, (statement, triple) in enumerate(found):
            add(reader, message, statement, triple, () if number else taken_back)
    elif durability.says_little(bare) and not taken_back:
        message.reason = message.reason or "too little to tell anything"
    elif message.turn.role != "assistant":
        message.loose.append((bare, _owner(message, bare, spotted), taken_back))
        mention(reader, bare, spotted)
    else:
        message.reason = message.reason or UNCONFIRMED
    _remember_person(reader, message, spotted, [triple for _, triple in found])


def _taken_back(sentence: str, previous: str) -> tuple[Reversal, ...]:
    """What a sentence takes back: what it names as over, and the day of an event that it moves to another day."""
    moved = moved_event(sentence)
    return (*find_reversals(sentence, previous), *([Reversal(moved.phrase)] if moved else []))


def _distinct(found: Iterable[tuple[str, Triple]]) -> list[tuple[str, Triple]]:
    """Without repetitions of one relation: "Anna is my sister, Anna Oliveira" names one sister."""
    kept: dict[tuple[str, str, str], tuple[str, Triple]] = {}
    for statement, triple in found:
        about = "" if triple.relation.startswith("has_") and triple.relation != "has_role" else triple.object
        kept.setdefault((triple.subject, triple.relation, about), (statement, triple))
    return list(kept.values())


def _triples(
    message: MessageReading, sentence: str, following: str, spotted: list[names.Name]
) -> Iterator[tuple[str, Triple]]:
    """Statements with their triples: of the whole sentence first, else clause by clause."""
    speaker = message.speaker
    person = message.turn.role != "document"
    if relations.is_spanish(sentence):
        seen = set()
        for triple in relations.relate_spanish(sentence, speaker, message.last_person) if person else ():
            if (triple.subject, triple.relation, triple.object) not in seen:
                seen.add((triple.subject, triple.relation, triple.object))
                words = sentence.replace("Es ", f"{triple.subject} es ", 1) if sentence.startswith("Es ") else sentence
                own = [part for part in relations.SPANISH_JOINT.split(words) if triple.object in part]
                yield quote(own[0] if own and triple.subject == speaker else words, speaker), triple
        return
    decided = list(decisions.find_decisions(sentence))
    for triple in decided:
        reason = f" {following}" if triple.relation.startswith("decided") and decisions.has_reason(following) else ""
        edge = "causal" if reason else triple.edge_type
        yield (
            statement_of(message, sentence + reason),
            replace(triple, subject=_whose(triple.subject, speaker), edge_type=edge),
        )
    if message.turn.role != "assistant":
        yield from _introductions(message, sentence)
    if not decided:
        yield from _by_clause(message, sentence, spotted)


def _whose(subject: str, speaker: str) -> str:
    """The bearer of a value: "my" is the speaker, "my sister" the sister of the speaker, "my sister Eva" is Eva."""
    if not subject or subject == "my":
        return speaker
    owned = subject.removeprefix("my ")
    kin = read_kin(subject) if owned != subject else None
    return subject if owned == subject else kin.name if kin and kin.name else f"{speaker}'s {owned}" if kin else owned


def _introductions(message: MessageReading, sentence: str) -> Iterator[tuple[str, Triple]]:
    """ "my sister Anna", "Anna's son Miguel": a role and its bearer, anywhere in the sentence."""
    for found in _OWNED_NAME.finditer(sentence):
        if found["role"] in clauses.ROLES:
            name = found["name"].removesuffix("'s").removesuffix("’s")
            is_over = bool(clauses.FORMER.search(sentence[found.start() : found.end("role")]))
            kind = relations.role_type(found["role"], name)
            bearer = Triple(f"has_{found['role']}", name, kind, message.speaker, "person", has_time=False)
            yield statement_of(message, sentence), replace(bearer, ended=is_over, replaced=name if is_over else "")
    for found in _WHOSE.finditer(sentence):
        if found["role"] in clauses.PEOPLE or found["role"] in clauses.ANIMALS:
            kind = relations.role_type(found["role"], found["name"])
            bearer = Triple(f"has_{found['role']}", found["name"], kind, found["who"], "person", has_time=False)
            yield statement_of(message, sentence), bearer


def _by_clause(message: MessageReading, sentence: str, spotted: list[names.Name]) -> Iterator[tuple[str, Triple]]:
    """The triples of each known clause, with its words from its start up to the next known clause."""
    known: list[tuple[int, str, str, list[Triple]]] = []
    for start, text in clauses.split(sentence):
        whole = clauses.parse(text, start, verbs.is_verb)
        if whole is None or (message.turn.role == "assistant" and whole.kind not in ("named", "the")):
            continue
        subject, kind = _subject(message, whole, spotted)
        lead = "" if known else sentence[:start]
        for at, clause in relations.with_shared_subject(whole) if subject else ():
            triples = [
                _completed(message, triple, subject, kind)
                for triple in relations.relate(clause)
                if clause.kind != "the" or triple.relation in _OF_THINGS
                if triple.relation in _AIMS or not _SUPPOSED.search(sentence, 0, start)
                if clause.head != "used" or not triple.ended or not _STILL.search(sentence, start)
                if clause.head not in verbs.MOVES or not relations.has_moved_on(sentence[start:], triple.object)
            ]  # fmt: skip
            if triples:
                opening = f"{lead}{clause.opening} " if at > start else ""
                known.append((at, opening, subject if clause.kind == "third" else "", triples))
    for i, (start, opening, pronoun_for, triples) in enumerate(known):
        end = known[i + 1][0] if i + 1 < len(known) else len(sentence)
        segment = (opening + sentence[start:end] if i else sentence[:end]).rstrip(" ,;:-–—")
        segment = re.sub(r"[\s,;]+(?:and|but|so|because|though|while|then|or)$", "", segment)
        if pronoun_for:
            at = 0 if i else start
            segment = segment[:at] + _PRONOUN_START.sub(lambda _, name=pronoun_for: name, segment[at:], count=1)  # type: ignore[misc]
        for triple in triples:
            yield statement_of(message, segment), triple


def _completed(message: MessageReading, triple: Triple, subject: str, kind: str) -> Triple:
    """The triple with its subject, where it has none of its own; the subject "speaker" is who speaks."""
    if triple.subject == "speaker":
        return replace(triple, subject=message.speaker, subject_type=_speaker_type(message))
    kind = triple.subject_type or kind or ("person" if triple.relation in PERSONAL else "")
    return replace(triple, subject=triple.subject or subject, subject_type=kind)


def _speaker_type(message: MessageReading) -> str:
    return "file" if message.turn.role == "document" else "person"


def _subject(message: MessageReading, clause: clauses.Clause, spotted: list[names.Name]) -> tuple[str, str]:
    """(name, type) of the subject of a clause; empty if unknown."""
    if clause.kind == "first":
        return message.speaker, _speaker_type(message)
    if clause.kind == "third":
        return message.last_person, "person"
    if clause.kind == "owned":
        return clause.name or f"{message.speaker}'s {clause.role}", relations.role_type(clause.role, clause.name)
    if clause.kind == "named":
        named = next((name for name in spotted if name.start == clause.start), None)
        return (named.text, names.type_of(named.text, "")) if named else ("", "")
    return clause.name, ""


def _owner(message: MessageReading, sentence: str, spotted: list[names.Name]) -> str:
    """The entity of an unparsed sentence: its named subject, else the speaker."""
    if spotted and spotted[0].start == 0 and _VERB_NEXT.match(sentence, spotted[0].end):
        return spotted[0].text
    if message.turn.role != "document" and FIRST_PERSON.search(sentence):
        return message.speaker
    if message.turn.role == "document":
        return next((name.text for name in spotted if name.is_known), message.speaker)
    return message.speaker


def _remember_person(
    reader: WindowReading, message: MessageReading, spotted: list[names.Name], found: list[Triple]
) -> None:
    """Stores the person that "he" or "she" means in the next sentence: the only person named in this one."""
    people = {triple.object for triple in found if triple.object_type == "person"}
    people |= {
        triple.subject for triple in found if triple.subject_type == "person" and triple.subject != message.speaker
    }
    people |= {
        name.text
        for name in spotted
        if reader.entities.get(name.text) == "person" or (not name.is_known and name.text in reader.speakers)
    }
    if not found and not people:
        people = {name.text for name in spotted if name.start == 0 and not name.is_known}
    if len(people) == 1:
        message.last_person = people.pop()
    elif people:
        message.last_person = ""
