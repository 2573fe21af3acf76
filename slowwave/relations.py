"""The table of verbs: what a clause with this verb and this continuation says as subject, relation, object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .clauses import PEOPLE, ROLES, Clause
from .names import is_pronoun, spot, type_of
from .retelling import impersonal
from .text import word_set

CERTAIN, LIKELY, WEAK = 0.9, 0.75, 0.72
_NUMBER = r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty)"
_JOB = (
    r"(?:lead|nurse|engineer|developer|manager|director|teacher|architect|designer|analyst|scientist|consultant|lawyer|doctor|chef|cook|writer|editor|student|intern|founder|ceo|cto"
    r"|freelancer|accountant|researcher|professor|artist|musician|photographer|therapist|counsel+or|owner|head|officer|assistant|administrator|programmer|veterinarian|vet|pilot|driver)"
)


@dataclass(frozen=True, slots=True)
class Triple:
    """What one clause says: `replaced` is what it does away with, `inverse` puts the speaker first."""

    relation: str
    object: str
    object_type: str = ""
    subject: str = ""
    subject_type: str = ""
    replaced: str = ""
    action: str = "supersede"
    reason: str = "temporal_change"
    ended: bool = False
    edge_type: str = "semantic"
    confidence: float = CERTAIN


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: how the rest must go on, the relation, the object's type, and the relation when denied."""

    then: re.Pattern[str]
    relation: str
    type: str = ""
    denied: str = ""
    ended: bool = False
    replaces: bool = False


_O = r"(?P<o>\S.*)"
_FROM_TO = r"(?:(?:over|back|away|everything|us)\s)?(?:(?:\w+\s){0,3}?from\s(?P<old>[^,;]{2,60}?)\s(?:over\s)?to\s(?P<o>\S.*)|to\s(?P<p>[^,;]{2,60}?)\s(?:instead\sof|from)\s(?P<old2>[^,;.]{2,60})|to\s(?P<q>\S.*))"
_ROWS: tuple[tuple[str, str, str, str, str], ...] = (
    # verbs · how it goes on · relation · type of the object · relation when denied
    ("work works worked working", rf"(?:at|for)\s{_O}", "works_at", "organization", "does_not_work_at"),
    ("work works worked working", rf"as\s(?:an?\s|the\s)?{_O}", "has_role", "", ""),
    ("work works worked working", rf"on\s{_O}", "works_on", "", "does_not_work_on"),
    ("work works worked working", rf"with\s{_O}", "works_with", "person?", "does_not_work_with"),
    ("start starts starting started", rf"at\s{_O}", "works_at", "organization", ""),
    ("join joins joined joining rejoin rejoined", _O, "joined", "organization", "did_not_join"),
    ("report reports reported", rf"to\s{_O}", "reports_to", "person", "does_not_report_to"),
    ("manage manages managed managing supervise supervises", _O, "manages", "person?", "does_not_manage"),
    ("lead leads led leading", _O, "leads", "", "does_not_lead"),
    ("maintain maintains maintained maintaining", _O, "maintains", "", "does_not_maintain"),
    ("own owns owned owning", _O, "owns", "", "does_not_own"),
    ("mentor mentors coach coaches coached", _O, "mentors", "", ""),
    ("live lives lived living", rf"in\s{_O}", "lives_in", "place", "does_not_live_in"),
    ("move moves moved moving relocate relocated relocating", _FROM_TO, "lives_in", "place", "is_not_moving_to"),
    ("move moved relocated", rf"(?:\w+\s){{0,2}}from\s{_O}", "moved_from", "place", ""),
    ("move moved relocated", rf"(?:in|into)\s{_O}", "moved_into", "", ""),
    ("stay stays staying stayed", rf"with\s{_O}", "stays_with", "person?", ""),
    ("grew grow", rf"up\sin\s{_O}", "grew_up_in", "place", "did_not_grow_up_in"),
    ("prefer prefers preferred", r"(?P<o>\S[^,;]{0,80}?)\s(?:over|rather\sthan|instead\sof|to)\s(?P<than>\S.*)", "prefers", "", "does_not_prefer"),
    ("prefer prefers preferred", _O, "prefers", "", "does_not_prefer"),
    ("like likes liked love loves loved enjoy enjoys enjoyed enjoying loving adore adores", _O, "likes", "", "dislikes"),
    ("hate hates hated dislike dislikes detest detests despise loathe loathes", _O, "dislikes", "", "does_not_dislike"),
    ("stand bear tolerate", _O, "tolerates", "", "dislikes"),
    ("mind minds", _O, "minds", "", "does_not_mind"),
    ("used", rf"to\s{_O}", "used_to", "", ""),
    ("use uses using used", _O, "uses", "", "does_not_use"),
    ("run runs running", rf"(?:\w+\s){{0,2}}on\s{_O}", "runs_on", "", "does_not_run_on"),
    ("run runs running ran", _O, "runs", "", "does_not_run"),
    ("built written implemented", rf"(?:with|on|in|using)\s{_O}", "uses", "", "does_not_use"),
    ("deploy deploys deployed deploying host hosted", rf"(?:\w+\s){{0,3}}?(?:on|to|with)\s{_O}", "runs_on", "", "does_not_run_on"),
    ("upgrade upgraded update updated bump bumped", r"(?!from\s)(?P<s>\S[^,;]{0,50}?)\sfrom\s(?P<old>[^,;]{1,30}?)\sto\s(?P<o>\S.*)", "version", "", ""),
    ("switch switched switching migrate migrated migrating convert converted change changed changing transition transitioned upgrade upgraded port ported moved",
     _FROM_TO, "switched_to", "", "did_not_switch_to"),
    ("replace replaced replacing swap swapped", r"(?P<old>\S[^,;]{0,60}?)\s(?:with|by|for)\s(?P<o>\S.*)", "switched_to", "", ""),
    ("have has having got", rf"(?:(?:an?|one|no|any)\s)?{_O}", "has", "", "does_not_have"),
    ("adopt adopted adopting", _O, "adopted", "", "did_not_adopt"),
    ("buy bought", _O, "bought", "", "did_not_buy"),
    ("sell sells selling", _O, "sells", "", "does_not_sell"),
    ("sold", _O, "sold", "", "did_not_sell"),
    ("study studies studied studying", _O, "studies", "", "does_not_study"),
    ("learn learning learned learns", _O, "learns", "", "does_not_learn"),
    ("speak speaks speaking", r"(?P<o>(?:fluent\s|a\slittle\s|some\s)?[A-Z]\w+.*)", "speaks", "language", "does_not_speak"),
    ("play plays playing played", _O, "plays", "", "does_not_play"),
    ("drink drinks drinking", _O, "drinks", "", "does_not_drink"),
    ("eat eats eating", _O, "eats", "", "does_not_eat"),
    ("teach teaches taught teaching", _O, "teaches", "", "does_not_teach"),
    ("collect collects", _O, "collects", "", "does_not_collect"),
    ("volunteer volunteers volunteered volunteering", rf"(?:at|for|with|in)\s{_O}", "volunteers_at", "", ""),
    ("build builds built building", _O, "builds", "", "does_not_build"),
    ("visit visited visiting", _O, "visited", "", "has_not_visited"),
    ("travel travelled traveled flew", rf"to\s{_O}", "travelled_to", "place", "has_not_travelled_to"),
    ("went gone", rf"(?:back\s)?to\s{_O}", "went_to", "", "has_not_gone_to"),
    ("go goes going", rf"(?:back\s)?to\s(?=an?\s|the\s|my\s|[A-Z]){_O}", "goes_to", "", "does_not_go_to"),
    ("go goes went gone", r"(?P<o>(?!going\b)\w{3,}ing\b.*)", "went", "", ""),
    ("took taking", rf"[^,;]{{2,40}}?\sto\s{_O}", "went_to", "", ""),
    ("attend attended attends attending", _O, "attended", "", "did_not_attend"),
    ("watch watched", _O, "watched", "", "has_not_watched"),
    ("read reading", r"[\"“](?P<o>[^\"”]{2,80})|(?P<p>[A-Z]\S[^,;]*)", "reads", "", "has_not_read"),
    ("paint painted", _O, "painted", "", "did_not_paint"),
    ("write wrote", _O, "wrote", "", "did_not_write"),
    ("win won", _O, "won", "", "did_not_win"),
    ("lose lost", _O, "lost", "", "did_not_lose"),
    ("meet met", _O, "met", "person?", "has_not_met"),
    ("hire hired", _O, "hired", "person?", "did_not_hire"),
    ("sign signed", rf"(?:up\sfor\s)?{_O}", "signed", "", "did_not_sign"),
    ("finish finished complete completed", _O, "finished", "", "has_not_finished"),
    ("graduate graduated", rf"(?:from|in|with)\s{_O}", "graduated_from", "", "did_not_graduate_from"),
    ("start started begin began begun", _O, "started", "", "has_not_started"),
    ("launch launched open opened release released ship shipped publish published deployed", _O, "released", "", "has_not_released"),
    ("marry married", _O, "married", "person?", "did_not_marry"),
    ("got get getting", r"(?P<o>married|engaged|divorced)\b.*", "is", "", "is_not"),
    ("want wants", r"(?P<o>(?!.*\sto\s)\S.*)", "wants", "", "does_not_want"),
    ("listen listens", rf"to\s{_O}", "listens_to", "", "does_not_listen_to"),
    ("know knows", r"how\sto\s(?P<o>\S.*)", "knows_how_to", "", "does_not_know_how_to"),
    ("promoted", rf"to\s(?:be\s)?{_O}", "has_role", "", ""),
    # what follows a form of "to be"
    ("be", rf"(?:an?\s)?(?:proud\s|new\s)?member\sof\s{_O}", "member_of", "organization", "not_member_of"),
    ("be", rf"allergic\sto\s{_O}", "allergic_to", "", "not_allergic_to"),
    ("be", rf"(?:originally\s)?from\s{_O}", "is_from", "place", "is_not_from"),
    ("be", rf"based\sin\s{_O}", "lives_in", "place", "does_not_live_in"),
    ("be", rf"born\sin\s{_O}", "born_in", "", "not_born_in"),
    ("be", rf"(?:married|engaged)\sto\s{_O}", "partner_of", "person", "not_partner_of"),
    ("be", rf"(?:an?\s)?(?:big\s|huge\s|great\s)?(?:fan\sof|fond\sof|keen\son|passionate\sabout|crazy\sabout|obsessed\swith|into)\s{_O}", "likes", "", "dislikes"),
    ("be", rf"(?:called|named)\s{_O}", "called", "", "not_called"),
    ("be", rf"(?:responsible\sfor|in\scharge\sof)\s{_O}", "responsible_for", "", "not_responsible_for"),
    ("be", rf"interested\sin\s{_O}", "interested_in", "", "not_interested_in"),
    ("be", rf"(?:afraid|scared|terrified)\sof\s{_O}", "fears", "", "does_not_fear"),
    ("be", rf"(?P<o>{_NUMBER})(?:\syears\sold)?(?=\s*(?:[.,;!]|and\b|now\b|$)).*", "age", "", ""),
    ("turned turn turns", rf"(?P<o>{_NUMBER})\b.*", "age", "", ""),
    ("be", r"(?P<o>(?:vegetarian|vegan|pescatarian|diabetic|pregnant|single|divorced|retired|left-handed|colou?r-?blind|transgender|trans|gay|bisexual|lactose[-\s]intolerant|unemployed|bilingual)\b.*)",
     "is", "", "is_not"),
    ("be", rf"(?:going\sto\sbe\s|now\s|acting\s)?(?:an?\s|the\s|our\s|your\s)?(?P<o>(?:(?!not\b)[\w-]+\s){{0,3}}?{_JOB}\b(?:\s(?:nurse|of|at|for)\b.*)?)(?=[\s,.;!]|$).*", "has_role", "", "is_not"),
    ("be", r"(?:an?|our)\s(?P<o>(?!bit\b|lot\b|little\b|few\b|pity|shame|mess|bummer|must\b|joy|pleasure|good|great|big\sdeal|real|huge|while|tough|hard|total|true|long|bad|nice|step|part|sign|reminder"
     r"|blast|mix|lifesaver|busy|crazy|treat|challenge|work|lovely|beautiful|wonderful|perfect|amazing|super|really|very|game|thing|way|dream|journey)\S.*)", "is_a", "", "is_not"),
)  # fmt: skip
_ENDINGS: tuple[tuple[str, str, str, str], ...] = (
    # verbs that say that something is over · how it goes on · relation that ends · type
    ("left", r"(?P<o>(?:the\s)?[A-Z]\S.*)", "works_at", "organization"),
    ("left quit", r"(?:my|the)\s(?P<o>(?:\w+\s)?(?:job|company|team|position)\b.*)", "works_at", ""),
    ("left quit leave", r"(?:the|my|our)\s(?P<o>(?:[\w'’-]+\s){0,4}(?:club|team|band|group|choir|gym|society|association|committee|board|course|class|church)\b.*)", "member_of", "organization"),
    ("quit resigned", r"(?:from\s)?(?P<o>(?:the\s)?[A-Z]\S.*)", "works_at", "organization"),
    ("stopped stop quit", r"using\s(?P<o>\S.*)", "uses", ""),
    ("stopped quit", r"drinking\s(?P<o>\S.*)", "drinks", ""),
    ("stopped quit", r"eating\s(?P<o>\S.*)", "eats", ""),
    ("stopped quit", r"(?:working\s(?:at|for))\s(?P<o>\S.*)", "works_at", "organization"),
    ("stopped quit", r"(?:working\son)\s(?P<o>\S.*)", "works_on", ""),
    ("stopped quit", r"(?:playing)\s(?P<o>\S.*)", "plays", ""),
    ("gave give given", r"up\s(?:on\s)?(?P<o>\S.*)", "gave_up", ""),
    ("dropped drop ditched abandoned retired deprecated removed uninstalled cancelled canceled", r"(?:support\sfor\s)?(?P<o>\S.*)", "uses", ""),
)  # fmt: skip
_POSSESSIONS = ROLES | word_set(
    """car bike bicycle motorbike house flat apartment garden van boat degree phd allergy tattoo piano guitar violin laptop licence license diploma
    certificate sibling pet disability business blog podcast"""
)
_WITH_TOOLS = frozenset({"uses", "runs_on", "does_not_use"})
_WANTS_NAME = frozenset({"organization", "place", "person"})
_STOP = re.compile(
    r"[,;!?()\[\]…–—]|[.:](?!\d)|\s-\s|\s(?:in|on|at|for|with|as|since|because|but|which|who|that|where|when|while|so|to|from|after|before|until|till|during|by|through|though|although|if|than|without|except"
    r"|about|and\s(?:i|we|he|she|they|it|my|the|now|have|am|was|is|has|can|will|had|then|i'm|it's|a|an|also|not|our|want|need|use|like|think|feel|know|got|get|went|did|\w{3,}ed|\w{3,}s\sto)\b|yesterday|today|tomorrow|tonight|last|next|this|now|anymore|any\smore|again|too|also|either"
    r"|recently|lately|already|every|a\slot|a\sfew|so\smuch|very\smuch|a\scouple|ago|these\sdays|instead|rather|right|straight|there|here|back|together|two|three|once|twice|almost|only|whenever|just|years?|or|is|are|was"
    r"|have|has|has\shad)(?=[\s,.;!?:]|$)",
    re.IGNORECASE,
)
_ADJECTIVE = re.compile(r"(?:^|\s)(?:a|an)\s[a-z-]+$")
_VERSIONED = re.compile(r"^(?P<tool>\S+(?:\s[A-Za-z]\S*)?)\sv?\d[\w.]*$")
_AND_TOOL = re.compile(r"[\s\dv.]*(?:,\s(?:and\s)?|\sand\s|\s[&+]\s)$")
_LISTED = re.compile(r",\s(?!(?:i|we|it|he|she|they|you|but|so|and|or|which|who|because|the|a|an|my|then|that|this|not|as|like|especially|can|how|what)\b)[a-z-]+(?=[\s,.])", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:(?:a|an|the|some|my|our|their|his|her|both|all|any|more)\s)+", re.IGNORECASE)
_BAD_START = re.compile(
    r"^(?:that|this|these|those|it|its|you|your|yourself|me|us|him|them|myself|how|what|when|where|who|why|whether|if|to|so|not|no|too|very|really|up|out|off|down|over|around|about|away|on|in"
    r"|into|through|with|for|by|like|as|and|or|but|more|much|many|lots?|everything|something|anything|nothing|everyone|things?|here|there|home|sure|sense|fun|well|forward|ahead|back|each|one|ones|another"
    r"|everybody|at|from|of|than|during|until|since|someone|anyone|nobody|such|having|being|getting|seeing|hearing|all|both|any|some|others?|part|place|rid|way|lots?|tons?|bit|ready|following|similar|above|below|own|longer|farther|faster|harder|late|early|half|first|last|next)\b(?!-)",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[^\W_]{2}")
_ADDRESSED = re.compile(r"\byou(?:rs?)?\b", re.IGNORECASE)
_FILLER = re.compile(r"^(?:really|just|also|always|quite|very|so|still|now|currently|especially|particularly|absolutely|actually|mostly|only|even|already|both|either)\s", re.IGNORECASE)
_EMPTY_GOAL = re.compile(
    r"(?:make\s(?:sure|it|this|them|that|the\smost)|ensure|keep|know|see|give\sup|quit|try|be\b(?!\san?\s)|do\s(?:my|their|it|this|that|the\ssame)|remember|forget|let|come|say|this|it|them|that|get\sit|help\b(?!\s\w+\s\w+)"
    r"|stay\b(?!\s(?:in|at|with))|check\s(?:it|them|out)|think|start\sthinking|stop|find\sout|be\sa\s(?:big|great)|meet\sthis)\b",
    re.IGNORECASE,
)
_DENIED_WISH = {"plans_to": "plan_to", "wants_to": "want_to", "considers": "consider"}
_CALLED = re.compile(r"\b(?P<role>[a-z]{3,15})(?:,)?\s(?:called|named)\s(?P<name>[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30}){0,2})")
_AS_ROLE = re.compile(r"\sas\s(?:an?\s|the\s|their\s)?(?P<o>[a-z][\w\s-]{2,50})")
_IN_PLACE = re.compile(r"\b(?:not|never|n't)\b", re.IGNORECASE)


def _compiled() -> dict[str, tuple[Rule, ...]]:
    table: dict[str, list[Rule]] = {}
    for verbs, then, relation, kind in _ENDINGS:
        for verb in verbs.split():
            table.setdefault(verb, []).append(Rule(re.compile(then), relation, kind, ended=True))
    for verbs, then, relation, kind, denied in _ROWS:
        rule = Rule(re.compile(then), relation, kind, denied, replaces="old" in then)
        for verb in verbs.split():
            table.setdefault(verb, []).append(rule)
    return {verb: tuple(rules) for verb, rules in table.items()}


VERBS = _compiled()


def is_verb(word: str) -> bool:
    """Whether the table knows the word as a form of a verb."""
    return word in VERBS and word != "be"


def read_object(text: str, words: int = 8) -> str:
    """The noun phrase a text begins with, without articles; empty when it is none or only points elsewhere."""
    text = text[:160]
    while filler := _FILLER.match(text):
        text = text[filler.end() :]
    article = _ARTICLE.match(text)
    body = text[article.end() :] if article else text
    stop = _STOP.search(body)
    if stop and stop.group() == "," and _ADJECTIVE.search(text[: (article.end() if article else 0) + stop.start()]) and (more := _LISTED.match(body, stop.start())):
        stop = _STOP.search(body, more.end()) or more
    body = (body[: stop.start()] if stop else body).strip(" .,'\"“”’")
    body = body.replace('"', "") if body.count('"') % 2 else body
    if not _LETTERS.search(body) or _ADDRESSED.search(body) or _BAD_START.match(body) or is_pronoun(body) or len(body) > 80:
        return ""
    return " ".join(body.split()[:words])


def relate(clause: Clause) -> Iterator[Triple]:
    """What a clause says, most telling first; nothing when the table does not know it."""
    if clause.wish or clause.modal in ("plans_to", "considers"):
        yield from _wished(clause)
        return
    if clause.modal in ("would", "could", "should"):
        return
    if clause.head in ("be", "have", "has", "had", "got") and (owned := _named_role(clause)):
        yield owned
        return
    for rule in VERBS.get(clause.head, ()):
        found = rule.then.match(clause.rest)
        if found and (triple := _triple(clause, rule, found)):
            yield triple
            if triple.relation in _WITH_TOOLS and triple.object_type in ("tool", "language"):
                yield from _further_tools(clause.rest, triple)
            if triple.relation == "works_at" and (role := _AS_ROLE.search(clause.rest)) and (told := read_object(role["o"])):
                yield Triple("has_role", told)
            return


def _further_tools(rest: str, first: Triple) -> Iterator[Triple]:
    """The tools that follow the first in one list: "Flask 2.3, Python 3.11 and SQLite"."""
    at = rest.find(first.object) + len(first.object)
    for name in spot(rest[:200]):
        if name.is_known and name.start > at:
            if not _AND_TOOL.match(rest[at : name.start]):
                return
            at = name.end
            yield replace(first, object=name.text, object_type=type_of(name.text), replaced=name.text if first.ended else "")


def _triple(clause: Clause, rule: Rule, found: re.Match[str]) -> Triple | None:
    """The triple of a rule that matched, with negation, ending and what it replaces."""
    groups = found.groupdict()
    raw = groups.get("o") or groups.get("p") or groups.get("q") or ""
    thing = impersonal(read_object(raw)) if rule.relation not in ("age", "has_role") else raw.split(",")[0].strip(" .!") if rule.relation == "age" else _role_of(raw)
    if not thing or not _fits(rule, thing, raw):
        return None
    if rule.relation in _WITH_TOOLS and (versioned := _VERSIONED.match(thing)) and type_of(versioned["tool"], ""):
        thing = versioned["tool"]
    old = read_object(groups.get("old") or groups.get("old2") or "")
    triple = Triple(rule.relation, thing, _type(rule.type, thing), replaced=old)
    if subject := groups.get("s"):
        triple = replace(triple, subject=read_object(subject), subject_type="tool")
    if rule.relation == "lives_in" and triple.object_type in ("tool", "language"):
        triple = replace(triple, relation="uses")
    over = clause.ended or (bool(re.search(r"\bany\s?more\b", clause.rest)) and clause.negated)
    if over or (rule.ended and not clause.negated and rule.relation != "gave_up"):
        return replace(triple, ended=True, replaced=thing)
    if rule.relation == "gave_up":
        return None if clause.negated else replace(triple, replaced=thing)
    if clause.negated:
        dropped = rule.denied.startswith("is_not_moving")
        return replace(triple, relation=rule.denied, replaced=thing if dropped else "", action="retract") if rule.denied and not rule.ended else None
    if rule.relation == "lives_in" and clause.head == "moving":
        return replace(triple, relation="plans_to", object=f"move to {thing}", object_type="", replaced="", confidence=WEAK)
    return triple


def _fits(rule: Rule, thing: str, raw: str) -> bool:
    """Whether the object is of the kind that the relation asks for."""
    if rule.type in _WANTS_NAME:
        named = any(word[0].isupper() for word in thing.split())
        return named or type_of(thing) in ("tool", "language") or (rule.type == "organization" and bool(_ARTICLE.match(raw)) and not thing[0].isdigit())
    if rule.relation == "has":
        return any(word.removesuffix("s") in _POSSESSIONS for word in thing.lower().split()) and not raw.lower().startswith(("to ", "no idea"))
    if rule.relation in ("stays_with", "version", "called", "works_with", "partner_of"):
        return thing[0].isupper() or thing[0].isdigit()
    if rule.relation in ("runs_on", "switched_to"):
        return not thing[0].isdigit() or rule.replaces
    return not thing[0].isdigit() or rule.relation in ("age", "has", "eats", "drinks")


def _type(asked: str, thing: str) -> str:
    """The object's entity type; empty for a literal. Only names become entities."""
    known = type_of(thing, "")
    if known:
        return known
    if asked and thing[0].isupper():
        return asked.rstrip("?")
    return "concept" if thing[0].isupper() and len(thing.split()) <= 4 else ""


def _role_of(raw: str) -> str:
    """A role with its "of …" and "at …", up to the first comma."""
    stop = re.search(r"[,;.!]|\s(?:from|since|on|because|and|but|now|starting|who|which)\s|\sin\s(?=[A-Z\d])", raw)
    return (raw[: stop.start()] if stop else raw).strip()[:80]


def _wished(clause: Clause) -> Iterator[Triple]:
    """A wish, plan, consideration or attempt, with what is wished in its own words."""
    relation = clause.wish or clause.modal
    if clause.modal == "plans_to" and clause.head == "be" and not clause.wish:
        yield from (replace(triple, confidence=WEAK) for triple in relate(replace(clause, modal="", wish="")) if triple.relation in ("has_role", "member_of"))
        return
    if clause.wish == "tries_to":
        relation = "works_on"
    stop = re.search(r"[;!?…]|\.(?!\d)|,|\s-\s|\s(?:because|but|since|so that|although|though|which)\s", clause.phrase)
    goal = impersonal((clause.phrase[: stop.start()] if stop else clause.phrase).strip(" .")[:120])
    if len(goal) < 4 or _ADDRESSED.search(goal) or _EMPTY_GOAL.match(goal):
        return
    if clause.negated:
        if relation not in _DENIED_WISH or not re.search(r"\s[A-Z]", goal):
            return
        yield Triple(f"does_not_{_DENIED_WISH[relation]}", goal,
                     replaced=goal, action="retract", confidence=WEAK)  # fmt: skip
        return
    yield Triple(relation, goal, confidence=WEAK)


def _named_role(clause: Clause) -> Triple | None:
    """ "a cat called Pixel", "my manager is Priya", "Anna is my sister": who is whose what."""
    if clause.negated:
        return None
    if clause.kind == "owned" and clause.head == "be" and not clause.name:
        named = re.match(r"(?:(?:called|named)\s)?(?P<name>[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30}){0,2})(?=[\s,.:;!]|$)", clause.rest)
        if named and type_of(named["name"]) not in ("tool", "language"):
            return Triple(f"has_{clause.role}", named["name"], role_type(clause.role), subject="speaker")
    if clause.kind == "first" and clause.head != "be":
        called = _CALLED.search(clause.rest)
        if called and called["role"] in ROLES:
            return Triple(f"has_{called['role']}", called["name"], role_type(called["role"]))
    if clause.kind == "named" and clause.head == "be":
        whose = re.match(r"my\s(?:(?:older|younger|little|big|best|new|former|old)\s)?(?P<role>[a-zé-]{2,20})(?=[\s,.;!]|$)", clause.rest)
        if whose and whose["role"] in ROLES:
            return Triple(f"has_{whose['role']}", clause.name, role_type(whose["role"]), subject="speaker")
    return None


def role_type(role: str) -> str:
    """The entity type of somebody's sister, dog, team or project."""
    if role in PEOPLE or role.endswith("-in-law"):
        return "person"
    if role in ("team", "company", "employer", "startup", "band", "club", "shop", "store", "studio"):
        return "organization"
    return "project" if role in ("project", "app", "product", "website") else "concept"
