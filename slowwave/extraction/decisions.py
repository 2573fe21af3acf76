"""Decisions with their reason, root causes with their fix, values with their change, and corrections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slowwave.lexicon.verbs import DATED, RESCHEDULED
from slowwave.records import Turn

from .clauses import read_object
from .coreference import impersonal
from .date_patterns import DATE
from .names import is_pronoun, may_be_a_name, spot
from .relations import CERTAIN, LIKELY, Triple
from .reversals import EVENT

_SIGNS = ("decid", "agreed", "chose", "settled", "opted", "going with", "turn", "cause", "culprit", "problem",
"issue", "bug", "fix", "solved", "resolved",
          "workaround", "sorry", "correct", "meant", "mistake", "known as", "oops")  # fmt: skip
_DIGIT = re.compile(r"\d")
_WHY = re.compile(
    r",?\s(?:because|['’]cause|since(?!\s(?:\d|last|the\s\d|yesterday|January|February|March|April|May"
    r"|June|July|August|September|October|November|December))|as\s(?:it|we|they|the|this)\b|so\sthat"
    r"|due\sto|given\sthat)\s?",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"(?P<who>\b(?:[Ww]e|I|i|[Tt]he\steam|[A-Z][\w-]+(?:\s[A-Z][\w-]+)?)\b(?:['’]ve|\shave|\shas|\sboth"
    r"|\sall|\sjust|\sfinally)*\s|^)(?:finally\s|just\s)?"
    r"(?P<verb>[Dd]ecided|[Aa]greed|chose|chosen|opted|settled|(?:are|'re"
    r"|’re)\sgoing\swith)(?!\s(?:with\s(?:you|that|this)|yet))(?:\s(?:to|on|that|for"
    r"|against)\b)?:?\s(?P<o>\S.{2,})"
)
_UNDECIDED = re.compile(
    r"\b(?:not|never|nothing|n't|haven['’]t|hasn['’]t|isn['’]t|before|if|until|once"
    r"|whether)\b[^.,;]{0,30}\b(?:decided|agreed|settled|chose)|\bdecided\syet|undecided",
    re.IGNORECASE,
)
_TURNED_OUT = re.compile(r"\bturn(?:s|ed)\sout\s?(?:that\s|,\s)?(?P<o>\S.{3,})", re.IGNORECASE)
_ROOT = re.compile(
    r"\b(?:the|our|its|this)\s(?:actual\s|real\s|underlying\s|main\s)?(?P<what>root\scause|cause|culprit"
    r"|real\sissue|real\sproblem|underlying\s(?:issue|problem)|actual\s(?:issue|problem)|bug)"
    r"(?:\s(?:of|for|behind|in)\s[^,;]{2,60}?)?\s(?:was|is|were|turned\sout\sto\sbe)\s(?!a\snew|not\b"
    r"|unknown|unclear|still)(?P<o>\S.{2,})",
    re.IGNORECASE,
)
_CAUSED = re.compile(r"(?P<s>\S[^,;]{2,80}?)\s(?:was|were|is|are)\scaused\sby\s(?P<o>\S.{2,})", re.IGNORECASE)
_FIXED = re.compile(
    r"(?:\b(?:fixed|solved|resolved|worked\saround)(?:\s(?:it|this|that|them"
    r"|the\s[\w\s-]{2,40}?))?(?:\s(?:by|in|with)\s|:\s)|\bthe\s(?:fix|solution|workaround)\s(?:was"
    r"|is)\s(?:to\s)?)(?P<o>\S.{2,})",
    re.IGNORECASE,
)
_ATTRIBUTE = (
    r"(?P<attr>(?:[a-z-]+\s){0,2}?(?:port|limit|version|time-?out|size|budget|deadline|quota|threshold"
    r"|interval|capacity|coverage|latency|response\stime|rate|price|rent|salary|retention|lifetime|ttl"
    r"|delay|duration"
    r"|score|release|weight|height|phone\snumber|birthday|count|number\sof\s\w+|error\srate|temperature"
    r"|memory|age|address|uptime|accuracy|due\sdate|cost))"
)
_THING = r"(?P<s>[A-Za-z][\w.'’-]{1,40}(?:\s[\w.'’-]{1,30}){0,4}?)"
_AMOUNT = (
    r"(?:about\s|around\s|roughly\s|only\s|at\s|exactly\s|up\sto\s|averaging\s"
    r"|on\s)?(?P<o>[$€£]?\d[\w.,:/%°-]*(?:\s[^\s,;()!?]+){0,6})"
)
_IS = (
    r"\s(?:is|was|are|has\sbeen|stays\sat|remains|equals|=|is\sset\sto|is\snow"
    r"|has\snow\sreached)(?:\s(?:now|currently|still|set\sto|at|already))?\s"
)
_VALUE_OF = re.compile(
    rf"(?:^|\b(?:the|my|our|a|is|new)\s){_ATTRIBUTE}\s(?:of|for|on)\s(?:the\s|my\s|our\s)?{_THING}{_IS}{_AMOUNT}",
    re.IGNORECASE,
)
_VALUE_IS = re.compile(
    rf"^(?:the\s|my\s|our\s)?(?:(?P<s>[A-Za-z][\w.-]{{2,30}}(?:\s[\w.-]+)?)['’]s\s)?{_ATTRIBUTE}{_IS}{_AMOUNT}",
    re.IGNORECASE,
)
_VALUE_HAS = re.compile(
    rf"{_THING}\s(?:has|have|had|with|uses)\s(?:a|an|the)\s{_ATTRIBUTE}\sof\s{_AMOUNT}", re.IGNORECASE
)
_CHANGED = re.compile(
    rf"(?:^|\b(?:the|my|our)\s)(?:the\s|my\s|our\s)?{_ATTRIBUTE}(?:\s(?:of|for|on)\s(?:the\s|my\s"
    rf"|our\s)?{_THING})?(?:,?\swhich)?\s(?:has\s|have\s|was\s|is\s|been\s)*(?:recently\s|now\s"
    rf"|just\s)?(?:changed|increased|dropped|went|rose|fell|improved|raised|lowered|reduced|moved|grew|slipped|postponed"
    rf"|extended|pushed)(?:\sup|\sdown|\sback)?\s(?:from\s(?P<old>[$€£]?\d(?:[^,;]|,(?=\d)){{0,30}}?)\s)?[^\d]{{0,50}}?{_AMOUNT}",
    re.IGNORECASE,
)
_OF_PERSON = re.compile(
    r"(?:(?:new|current|home|own|monthly)\s)?(?:birthday|age|weight|height|phone\snumber|salary|rent|address)",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:my|our)\s$", re.IGNORECASE)
_LISTENS = re.compile(
    rf"{_THING}\s(?:listens?|runs?|is|are|answers)\s(?:on|at)\sport\s(?P<o>\d{{2,5}})\b", re.IGNORECASE
)
_WENT = re.compile(
    rf"(?:^|\bthe\s){_THING}\s(?:went|dropped|fell|rose|grew|improved|came\sdown|went\sup"
    rf"|went\sdown)\sfrom\s(?P<old>\d[^,;]{{0,30}}?)\sto\s{_AMOUNT}",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    r"\b(?:instead\sof|rather\sthan|not|up\sfrom|down\sfrom"
    r"|was)\s(?P<old>(?:[$€£]?\d[\w.,:/%-]*)(?:\s(?:[kKMG]?B|ms|s|per\s\w+|requests|days?|hours?|minutes?"
    r"|%))?)",
    re.IGNORECASE,
)
_VALUE_STOP = re.compile(
    r",(?!\d{3})|[;!?()]|\.(?!\d)|:(?!\d)|\s(?:and|but|because|since|instead|rather|not|so|which|that|where|when"
    r"|until|after|before|now|today|yesterday|last|for\sthe|from|with|in\s(?:all|the)|to|by|can|on|at"
    r"|while|as)\b",
    re.IGNORECASE,
)
_OWNED_VALUE = re.compile(
    r"(?P<s>\S.*?)\s(?P<attr>(?:[a-z-]+\s)?(?:limit|size|rate|time|date)|port|version|time-?out|budget"
    r"|deadline|quota|price|rent|score|release|birthday)$",
    re.IGNORECASE,
)
_SCHEDULED = re.compile(
    r"(?:(?P<whose>(?:(?:my|our)\s[a-z-]+|[A-Z]\w+)['’]s)|my|our|the)\s(?P<event>(?:[\w'’-]+\s){0,3}?[\w-]+)\s"
    r"(?:(?:is|are|will\sbe|takes\splace|will\stake\splace)"
    r"(?:\s(?:now|actually|currently|set|scheduled|planned|going\sto\sbe))*\s(?:on|for|to)"
    rf"|(?:(?:(?:has|have)\sbeen|was|were|got|is|are)(?:\s(?:now|just))?\s{RESCHEDULED}|moved(?:\s(?:back|forward|up|out))?)"
    rf"(?:\sfrom\s(?P<old>{DATE}))?\s(?:for|to|until|till))"
    rf"\s(?P<o>{DATE})",
    re.IGNORECASE,
)
_SORRY = re.compile(
    r"^(?:(?:sorry|correction|oops|wait|my\s(?:mistake|bad)|scratch\sthat|to\scorrect\smyself"
    r"|i\s(?:misspoke|was\swrong)|small\scorrection)[\s,.:;!–—-]*(?:but\s|about\sthat[\s,:]*)?)+",
    re.IGNORECASE,
)
_CORRECTED_VALUE = re.compile(
    r"(?:earlier\s)?i\s(?:said|wrote|told\syou|mentioned|claimed)(?:\sthat)?\s(?P<old>\S.{1,120}?)(?:,"
    r"|\sbut|;|\s[–—-])\s(?:but\s)?(?:actually\s)?(?:it(?:['’]s|\sis|\swas|\sshould\sbe)|i\smeant"
    r"|that\sshould\sbe|the\sright\s\w+\sis|actually)\s(?:actually\s|really\s)?(?P<o>\S.*)",
    re.IGNORECASE,
)
_MEANT = re.compile(
    r"\bi\s(?:meant|mean)(?:\sto\ssay)?\s(?P<o>\S.{0,80}?)(?:,|\s)\s?(?:and\s)?not\s(?P<old>\S.{0,80})", re.IGNORECASE
)
_NOT_BUT = re.compile(
    r"(?:it(?:['’]s|\sis|\swas)|that(?:['’]s|\sis"
    r"|\swas))\s(?:actually\s)?(?P<o>\S.{0,60}?),?\s(?:and\s)?not\s(?P<old>\S.{0,60})",
    re.IGNORECASE,
)
_KNOWN_AS = re.compile(
    r"(?:^|[;:]\s|,?\s(?:and|but)\s)(?P<s>[A-ZÀ-Þ][\w-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30}){0,3}),?\s(?:is\s)?(?:also\s|better\s)?(?:known"
    r"|referred\sto)(?:\s[\w\s]{2,20}?)?\sas\s[\"“'](?P<o>[^\"”']{3,40})[\"”']"
)


def find_decisions(sentence: str) -> Iterator[Triple]:
    """Corrections, decisions, causes, fixes and values in a sentence; an empty subject means the speaker."""
    lower = sentence.lower()
    if not _DIGIT.search(sentence) and not any(sign in lower for sign in _SIGNS):
        return
    for reading in (_correction, _schedule, _decision, _cause, _value):
        found = reading(sentence)
        if found:
            yield from found
            return


def has_reason(sentence: str) -> bool:
    """Whether a sentence opens as the reason of the one before it."""
    return bool(re.match(r"(?:the\s)?(?:reason|because|why)\b", sentence, re.IGNORECASE))


def _decision(sentence: str) -> list[Triple]:
    found = _DECIDED.search(sentence)
    if not found or _UNDECIDED.search(sentence):
        return []
    why = _WHY.search(found["o"])
    what = (found["o"][: why.start()] if why else found["o"]).rstrip(" .!,;")
    what = impersonal(re.split(r"(?<=\w)[.;!]\s|,\s(?:and|but|so)\s(?:[Ii]|we|it|they)\b", what)[0][:160])
    if is_pronoun(what.split()[0]):
        return []
    who = found["who"].strip()
    subject = re.sub(r"(?:['’]ve|\shave|\shas|\sboth|\sall|\sjust|\sfinally)+$", "", who)
    named = (
        subject
        if subject[:1].isupper() and subject.lower() not in ("we", "i", "the team") and spot(f"and {subject} x")
        else ""
    )
    verb = "decided_against" if re.match(r"\S+\sagainst\b", sentence[found.start("verb") :]) else "decided"
    if (
        verb == "decided"
        and found["verb"].lower() == "agreed"
        and not why
        and not re.search(r"agreed\s(?:to|on|that)\b", sentence, re.IGNORECASE)
    ):
        return []
    return [
        Triple(
            verb, what, subject=named, subject_type="person" if named else "", edge_type="causal" if why else "semantic"
        )
    ]


def _cause(sentence: str) -> list[Triple]:
    found: list[Triple] = []
    for pattern, relation in (
        (_ROOT, "root_cause"),
        (_CAUSED, "caused_by"),
        (_TURNED_OUT, "turned_out"),
        (_FIXED, "fixed_by"),
    ):
        if match := pattern.search(sentence):
            thing = re.split(r"[;!]\s|\.\s", match["o"])[0].rstrip(" .!")[:160]
            about = read_object(match["s"]) if relation == "caused_by" else _about(sentence)
            found.append(Triple(relation, thing, subject=about, edge_type="causal"))
            if relation != "fixed_by" and not _FIXED.search(sentence):
                break
    return found


def _about(sentence: str) -> str:
    """The first thing a sentence names that is neither the speaker nor a person; empty when there is none."""
    the = re.search(
        r"\b(?:the|our)\s(?P<o>importer|parser|server|database|service|api|client|app|build|pipeline"
        r"|scheduler|cache|queue|backend|frontend|deployment|cron\sjob)\b",
        sentence,
        re.IGNORECASE,
    )
    known = [name.text for name in spot(sentence) if name.is_known]
    return the["o"] if the else known[0] if known else ""


def _value(sentence: str) -> list[Triple]:
    known = _KNOWN_AS.search(sentence)
    if known and may_be_a_name(known["s"].split()[0]):
        return [Triple("known_as", known["o"], subject=known["s"])]
    for pattern in (_LISTENS, _CHANGED, _VALUE_OF, _VALUE_HAS, _VALUE_IS, _WENT):
        found = pattern.search(sentence)
        if not found:
            continue
        groups = found.groupdict()
        relation = "port" if pattern is _LISTENS else "changed_to" if pattern is _WENT else _snake(groups["attr"])
        thing = _amount(sentence[found.start("o") :])
        subject = _thing(groups.get("s") or "")
        if not subject and "attr" not in groups:
            continue
        if _OWN.search(sentence[: found.start("s" if subject else "attr")]):
            subject = f"my {subject}" if subject else "my" if _OF_PERSON.fullmatch(groups["attr"]) else ""
        if not subject:
            subject, relation = groups["attr"].strip(), "value"
        old = groups.get("old") or ""
        instead = _INSTEAD.search(sentence, found.end("o") - len(groups["o"]))
        before = old or (instead["old"] if instead else "")
        if thing and (len(subject) > 2 or subject == "my"):
            return [Triple(relation, thing, subject=subject, subject_type="" if relation != "value" else "config",
                           replaced=before.rstrip(" .,"), confidence=CERTAIN)]  # fmt: skip
    return []


def _schedule(sentence: str) -> list[Triple]:
    """The date of an event to come: a named one is the subject, "our wedding" a relation of its bearer."""
    sorry = _SORRY.match(sentence)
    found = _SCHEDULED.match(sentence, sorry.end() if sorry else 0)
    event = found["event"] if found else ""
    relation = f"{_snake(event)}_date"
    if not found or not EVENT.fullmatch(event) or not re.search(DATED, relation):
        return []
    when, old = found["o"], found["old"] or ""
    if any(word[0].isupper() for word in event.split()):
        return [Triple("scheduled_for", when, subject=event, subject_type="event", replaced=old)]
    whose = re.sub(r"^(?:my|our)\s", "my ", (found["whose"] or "")[:-2], flags=re.IGNORECASE)
    return [Triple(relation, when, subject=whose, subject_type="person", replaced=old)]


def _correction(sentence: str) -> list[Triple]:
    sorry = _SORRY.match(sentence)
    body = sentence[sorry.end() :] if sorry else sentence
    if found := _CORRECTED_VALUE.search(body):
        return [_corrected(found["old"], found["o"])]
    if found := _MEANT.search(body):
        return [_corrected(found["old"].rstrip(" .!"), found["o"])]
    if sorry and (found := _NOT_BUT.search(body)):
        return [_corrected(found["old"].rstrip(" .!"), found["o"])]
    return []


def _corrected(old: str, new: str) -> Triple:
    """A correction, with the subject and relation of the earlier value."""
    thing = _amount(new) or read_object(new) or new.strip(" .!")[:80]
    if values := _value(old):
        value = values[0]
        return Triple(
            value.relation,
            thing,
            subject=value.subject,
            subject_type=value.subject_type,
            replaced=value.object,
            reason="correction",
        )
    about = re.match(r"(?P<old>\S.{0,60}?)\s(?:for|as|of)\s(?:the\s)?(?P<s>\S.{2,60})$", old)
    if about:
        whole = _thing(about["s"])
        owned = _OWNED_VALUE.match(whole)
        subject, relation = (owned["s"], _snake(owned["attr"])) if owned else (whole, "is")
        return Triple(relation, thing, subject=subject, replaced=about["old"], reason="correction", confidence=LIKELY)
    return Triple("corrected_to", thing, replaced=old.strip(" .!")[:80], reason="correction", confidence=LIKELY)


def _amount(text: str) -> str:
    """A value with its unit; empty without a digit."""
    stop = _VALUE_STOP.search(text)
    value = (text[: stop.start()] if stop else text).strip(" .!")
    return value[:60] if any(mark.isdigit() for mark in value) else ""


def _thing(words: str) -> str:
    """The thing that has the value, without articles and the words before it."""
    bare = re.sub(
        r"^(?:.*\b(?:the|our|my|that|and|of|because|says?|is)\s)", "", words.strip(), flags=re.IGNORECASE
    ).strip()
    bare = re.sub(r"\s(?:now|currently|also|still|just)$", "", bare)
    if (
        not bare
        or len(bare.split()) > 4
        or re.match(r"\w+ing\s|(?:with|for|in|on|at|to|has|have|had|was|a|an)\s", bare, re.IGNORECASE)
    ):
        return ""
    return "" if bare.lower() in ("it", "they", "this", "we", "there", "i", "he", "she", "which", "now") else bare


def _snake(words: str) -> str:
    return re.sub(r"[\s-]+", "_", re.sub(r"^(?:new|old|current|total|the|public|my|our)\s", "", words.strip().lower()))


# Findings and proposals of an assistant, and whether the person accepts them. Words of an assistant become knowledge
# only when a person agrees: "Root cause: the index is missing." — "That was it."


MAX_FINDINGS = 3
_ACCEPTS = re.compile(
    r"^(?:(?:oh|ah|ok|okay|great|nice|perfect|cool|wow|hm+|haha|thanks|thank\syou)[\s,.!–—-]+)*"
    r"(?:(?:yes|yep|yeah|exactly|right|correct|agreed|confirmed|indeed|absolutely|definitely|true|deal|done|sí|exacto|genau)"
    r"(?=[\s,.!;:–—-]|$)(?!,?\s(?:but|and\syet|except))"
    r"|(?:good|great|nice|excellent)\s(?:catch|find|idea|call|point|thinking|plan|suggestion)"
    r"|(?:that|this|it)(?:['’]s|\swas|\sis)\s(?:it\b|the\s(?:reason|cause|problem|bug|one)|right|correct|exactly|true)"
    r"|(?:that|this|it)\s(?:makes\s(?:a\slot\sof\s|perfect\s)?sense|explains\s(?:it|a\slot|everything)|did\sit|works?|worked"
    r"|fixed\sit|helped|solved\sit|sounds\s(?:good|great|right|perfect))|makes\ssense"
    r"|(?:you['’]re|you\sare|you\swere)\s(?:right|correct)|i\sagree|sounds\s(?:good|great|right|perfect)"
    r"|(?:let['’]s|please|we['’]ll|i['’]ll|yes)\s(?:do|use|go\swith|take|try)\s(?:that|it|this)|do\s(?:that|it|so)\b|go\s(?:with|for)\s(?:that|it)"
    r"|go\sahead|(?:we|let['’]s)\sgo\swith|fixed[\s,.!]|solved[\s,.!]|works\snow|buena\sidea|de\sacuerdo|stimmt|einverstanden)",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"^(?:(?:hm+|oh|ok|well|sorry)[\s,.!]+)*(?:no\b|nope|not\b|wrong|i\s(?:don['’]t|do\snot|doubt)|that(?:['’]s|\sis)\snot|but\b)"
    r"|\b(?:not\s(?:it|true|right|correct|the\s(?:cause|reason|problem))|that(?:['’]s|\sis)\swrong|i\sdoubt|i\sdisagree"
    r"|instead|rather\snot|however|actually\sno|did(?:n['’]t|\snot)\s(?:help|work|fix))\b",
    re.IGNORECASE,
)
_FINDING = re.compile(
    r"\b(?:root\scause|caused\sby|(?:the|a|its|real|actual|underlying)\s(?:cause|culprit|reason|problem|issue|bug)\s(?:is|was|here|seems|turned)"
    r"|because|due\sto|turns?\sout|turned\sout|the\s(?:fix|solution|workaround)\s(?:is|was)|fails?\swhen|happens\swhen"
    r"|i\s(?:recommend|suggest|propose|would|['’]d)|i['’]d|(?:i|we|you)\sshould|(?:my|the)\s(?:recommendation|suggestion|proposal)"
    r"|(?:we|you)\scould|it(?:['’]s|\sis)\sbest\sto|best\sto\s|would\sfix|will\sfix)\b|^(?:root\scause|cause|reason|problem|fix"
    r"|solution|recommendation|suggestion|diagnosis|conclusion|decision):",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Sentences of an assistant that a person accepted, and the name of that person; empty without one."""

    sentences: tuple[str, ...] = ()
    by: str = ""


def accepts(answer: str) -> bool:
    """Whether an answer agrees with the message before it."""
    bare = answer.strip()
    first = re.split(r"(?<=[.!?\n])\s", bare, maxsplit=1)[0]
    return bool(_ACCEPTS.match(bare)) and not _REFUSES.search(first) and not first.rstrip().endswith("?")


def accepted_part(turns: Sequence[Turn], turn: Turn, sentences: Sequence[str]) -> Accepted:
    """The findings and proposals among the sentences of an assistant's turn that the next person to speak accepts."""
    after = next((each for each in turns if each.index > turn.index and each.role in ("user", "assistant")), None)
    if after is None or after.role != "user" or not accepts(after.text):
        return Accepted()
    findings = [sentence for sentence in sentences if _FINDING.search(sentence) and not sentence.rstrip().endswith("?")]
    return Accepted(tuple(findings[:MAX_FINDINGS]), " ".join(after.speaker.split()) or after.role)
