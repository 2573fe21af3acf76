"""The tense of the words about a date: past or future."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .date_words import Tense

_PARTICIPLE = (
    r"(?:been|had|gone|done|taken|known|seen|sung|grown|written|lost|got|gotten|made|won|left|become|begun|come|run|given"
    r"|held|kept|led|met|paid|spent|taught|told|thought|worn|driven|eaten|fallen|felt|flown|found|heard|read|sold|sent"
    r"|slept|spoken|stood|built|bought|brought|caught|chosen|broken|forgotten|stolen|thrown|hidden|ridden|shown|laid|understood|hung"
    r"|lent|woken|dealt|dug|swept|drawn|drunk|played|\w{2,}ed)"
)
_ADJECTIVE = (
    r"(?:excited|interested|tired|worried|scheduled|planned|supposed|expected|pleased|married|need|bed|red|speed|feed"
    r"|indeed|hundred|proceed|booked|used|embed|shed|wed|thrilled|stressed|limited|called|named|based|united)"
)
_FUTURE = re.compile(
    r"\b(?:will|shall|won't|gonna|upcoming|can't wait|looking forward|let's|deadline|due|must|should|might|intends?"
    r"|hop(?:e|es|ing) to"
    r"|(?<!was )(?<!were )going to|(?<!was )(?<!were )plan(?:s|ning)?[ _](?:to|on)|wants?[ _]to|wanna|needs? to"
    r"|ha(?:ve|s) to|(?:aim|expect)(?:s|ing)? to|would (?:like|love) to|about to|set to|supposed to"
    r"|(?:is|are|am|be|been) (?:also )?(?:scheduled|planned|expected|booked)|please"
    r"|(?:am|is|are) (?:(?!been\b)\w+ ){0,2}?(?!being|missing)\w{2,}ing"
    r"|(?:voy|vas|va|vamos|van) a|quier[oe]n?|queremos|teng[oa] que|tenemos que|debo|espero|pienso|necesit[oa]n?"
    r"|\w{2,}(?:ar|er|ir|dr)(?:é|ás|á|emos|án))\b"
    r"|'ll\b|'d like to\b|(?:'m|'re|(?:he|she|it|there|who)'s) (?:(?!been\b)\w+ ){0,2}?(?!being|missing)\w{2,}ing\b",
    re.IGNORECASE,
)
_PERFECT = re.compile(
    rf"(?:\b(?:have|has|haven't|hasn't)|'ve|\b(?:he|she|it|who|that)'s)\s+(?:(?!to\b)\w+\s+){{0,2}}?{_PARTICIPLE}\b"
    r"|\b(?:llevo|llevamos|lleva|llevan)\b",
    re.IGNORECASE,
)
_MISSED = re.compile(
    r"\b(?:should|ought to|could|might|must|would|needn't|shouldn't|couldn't)(?: not)?(?: have|'ve)"
    rf" (?:(?!to\b)\w+ ){{0,2}}?{_PARTICIPLE}\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:re|over|under|with)?(?:was|were|wasn't|weren't|did|didn't|had|hadn't|went|got|left|quit|met|made|took"
    r"|began|became|came|saw|bought|built"
    r"|gave|found|lost|won|sold|told|said|felt|fell|flew|drove|wrote|ran|sang|sat|slept|spoke|spent|stood|taught"
    r"|thought|threw|wore|kept|knew|heard|held|paid|sent|broke|brought|caught|chose|ate|drank|grew|led|rode|rose|shot"
    r"|swam|shook|fought|froze|hung|blew|dug|rang|sank|slid|swung|swept|wept|withdrew"
    r"|undertook|overcame|fled|cost|understood|woke|born|could|used to|drew|forgot|hid|lay|meant|sought|stole"
    r"|struck|stuck|swore|tore|dealt|hit"
    rf"|(?!{_ADJECTIVE}\b)\w{{2,}}ed"
    r"|fui|fue|fuimos|fueron|era|eran|éramos|estuv\w+|tuv\w+|hic\w+|hizo|vin[eo]|había\w*|hubo|di|dio|pud[eo]|pus[eo]"
    r"|\w{3,}(?:ó|aron|ieron|aba|aban|ábamos|ían|íamos)|(?!(?:caf|beb|qu|porqu|jos)é)\w{2,}é)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:is|are|am|isn't|aren't|gets?|starts?|begins?|opens?|closes?|ends?|leaves?|arrives?|expires?|comes?"
    r"|takes? place"
    r"|goes|launches|runs?|flies|happens?|turns?|es|son|está|empieza\w*|sale\w*|termina\w*"
    r"|(?:i|we|they|you|he|she)\s+(?:\w+ly\s+)?[a-z]+)\b|'m\b|'re\b|\b(?:it|he|she|there)'s\b",
    re.IGNORECASE,
)
_ADVERB = r"(?:(?:both|all|also|then|only|just|finally|still|\w+ly) ){0,2}"
_HAPPENS = re.compile(
    r"\b(?:(?:i|we|they|you|people|children|men|women|(?!\w*(?:ss|us|is)\b)\w{2,}s"
    r"|\w+ and (?:my |his |her |our )?\w+)"
    rf" {_ADVERB}(?:marry|wed|visit|leave|start|fly|arrive|move|graduate|begin|open|close|meet|return|come|go|launch"
    r"|depart|travel|retire|relocate|finish|end|land|join|resume|become|turn|get (?:married|engaged|divorced))"
    r"|(?!(?:the|an?|my|our|your|his|her|its|their|these|those|all|many|some|of|for|in)\b)\w+"
    rf" {_ADVERB}(?:marries|weds|visits|leaves|starts|flies|arrives|moves|graduates|begins|opens|closes"
    r"|meets|returns|comes|goes|launches|departs|travels|retires|relocates|finishes|ends|lands|joins|resumes"
    r"|becomes|turns|expires|premieres|gets (?:married|engaged|divorced)))\b",
    re.IGNORECASE,
)  # verbs whose present tense means the future: "we marry in June"
_HABIT = re.compile(
    r"\b(?:always|usually|often|every|each|normally|generally|typically|mostly|sometimes|never|rarely|seldom|tend)\b",
    re.IGNORECASE,
)
_EITHER = re.compile(
    r"\b(?:i|we|they|you|he|she) (?:\w+ly )?(?:cut|put|set|read|let|hurt|shut|beat|bet|split|spread|cast|quit|upset)\b",
    re.IGNORECASE,
)  # present or past
_PASSIVE = re.compile(
    r"\b(is|are|am|'s|'re|'m|gets?|isn't|aren't)\s+"
    rf"(?:(?:being|now|still|also|always|not|already|only|just|currently)\s+)?{_PARTICIPLE}\b",
    re.IGNORECASE,
)
# Words before a day that arrange an appointment. "On" after a move is the day of the decision: "moved it on Monday".
_MOVED = re.compile(
    r"""
    (?P<was>\b(?:was|were)\s+)?
    \b(?:re-?schedul|re-?book|postpon|mov|push|bump|delay|deferr|adjourn|shift|chang|slip|br(?:ought|ing)\ forward
        |put(?:ting)?\ (?:off|back))\w*\b
    .*\b(?:for|to|until|till|from)\s*$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BOOKED = re.compile(
    r"""
    (?P<was>\b(?:was|were)\s+)?
    \b(?:(?:book|reserv|schedul|plann|sign(?:ed)?\ up|regist|set|extend|agree)\w*
        |(?:tickets?|appointments?)(?!\ (?:was|were)\b))\b
    .*\b(?:for|to|until|till|on|from)\s*$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PUT_OFF = re.compile(
    r"\b(?:re-?schedul|postpon|delay|deferr|adjourn|put(?:ting)? (?:off|back)|push\w* (?:back|out))\w*"
    r"\s+(?:until|till)\s*$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÀ-Þ¿¡])|\n")
_HARD = re.compile(r"[;:—]| - | – ")
_CLAUSE = re.compile(
    r"(,|\b(?:and|or|then|y|but|because|so|while|although|though|what|which|who|where|when|as|if|pero|porque|que"
    r"|(?<!in )(?<!at )(?<!of )(?<!on )(?<!for )that)\b)",
    re.IGNORECASE,
)
_SHARED = frozenset({",", "and", "or", "then", "y"})  # the next part may share the verb of the part before


@dataclass(frozen=True, slots=True)
class ClauseTense:
    """Tense of the clause about a date. `is_perfect`: "has worked", which reaches until now; `is_moved`: an
    appointment was moved to that date; `is_put_off`: it was put off "until" then; `is_missed`: "should have paid";
    `is_present`: not a past time."""

    tense: Tense
    is_perfect: bool = False
    is_moved: bool = False
    is_put_off: bool = False
    is_missed: bool = False
    is_present: bool = False


@lru_cache(maxsize=4096)
def clause_tense(words: str, statement: str) -> ClauseTense:
    """The tense of the sentence with these words, by the verb nearest to them."""
    statement = statement[:4000].replace("’", "'")
    words = _as_written(words, statement)
    sentence = next((part for part in _SENTENCE.split(statement) if words in part), statement)
    before, _, after = sentence.partition(words) if words in sentence and words else ("", "", sentence)
    before, after = _HARD.split(before)[-1], _HARD.split(after)[0]
    for opening in (before, f"{before} {words.partition(' ')[0]}"):
        if arranged := _MOVED.search(opening) or _BOOKED.search(opening):
            tense: Tense = "unknown" if arranged["was"] else "future"  # "was" is the tense of the decision
            is_moved = arranged.re is _MOVED
            return ClauseTense(tense, is_moved=is_moved, is_put_off=is_moved and bool(_PUT_OFF.search(opening)))
    found = _nearest(_CLAUSE.split(before)[::-1])
    past_after = _PAST.match(after.lstrip())  # "our launches in May were late"
    if found is None or (found != ClauseTense("past") and past_after):
        found = _nearest(_CLAUSE.split(after)) or found
    return found or ClauseTense("unknown")


def _as_written(words: str, statement: str) -> str:
    """The words, or what stands in the statement: of "on 9 July" the day alone where it says "moved to 9 July"."""
    day = words.partition(" ")[2]
    return day if words not in statement and day in statement else words


def _nearest(parts: list[str]) -> ClauseTense | None:
    """The tense of the first clause with a verb; `parts` are the clauses from the words outward, with their joints.

    A clause that begins with "that" or "because" has a verb of its own, even if that verb is unknown here.
    """
    for place in range(0, len(parts), 2):
        found = _of_clause(parts[place])
        if found or (place + 1 < len(parts) and parts[place + 1].lower() not in _SHARED):
            return found
    return None


def has_verb(clause: str) -> bool:
    """Whether a clause has a verb with a known tense."""
    return _of_clause(clause) is not None


def _of_clause(clause: str) -> ClauseTense | None:
    if _MISSED.search(clause):
        return ClauseTense("past", is_missed=True)
    if _FUTURE.search(clause):
        return ClauseTense("future")
    if _PERFECT.search(clause):
        return ClauseTense("past", is_perfect=True)
    if _PAST.search(_PASSIVE.sub(r"\1", clause)):
        return ClauseTense("past")
    if _HAPPENS.search(clause) and not _HABIT.search(clause):
        return ClauseTense("future")
    is_present = bool(_PRESENT.search(clause) or _HAPPENS.search(clause))
    return ClauseTense("unknown", is_present=not _EITHER.search(clause)) if is_present else None
