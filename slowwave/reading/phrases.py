"""Where a noun phrase ends, and whether it names anything at all."""

from __future__ import annotations

import re

from slowwave.reading.names import is_pronoun

ACTS = r"(?:live|work|love|hate|prefer|drink|eat|play|speak|study|teach|own|sing|drive|write|build|make|take|keep)"
"""Verbs that go on with a sentence whose subject is not said again: "I work at Acme and live in Bath"."""
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


def read_object(text: str, words: int = 8) -> str:
    """The noun phrase a text begins with, without articles; empty when it is none or only points elsewhere."""
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
    return " ".join(body.split()[:words])
