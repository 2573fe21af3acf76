"""The relation in a clause: subject, relation, object, and the old object that it replaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from slowwave.lexicon.given_names import is_given_name
from slowwave.lexicon.place_hierarchy import is_known
from slowwave.lexicon.verbs import MOVES, STATES, VERBS, Rule, is_verb
from slowwave.text import word_set

from .clauses import ADDRESSED, ANIMALS, ARTICLE, FORMER, OFFICES, PEOPLE, ROLES, Clause, parse, read_object
from .coreference import impersonal
from .dates import find_hint
from .names import spot, type_of

CERTAIN, LIKELY, WEAK = 0.9, 0.75, 0.72


@dataclass(frozen=True, slots=True)
class Triple:
    """The relation of one clause; `replaced` is the object that is no longer true.

    `has_time`: a time in the statement is that of the relation; "my sister Anna moved in May" gives `has_sister` none.
    """

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
    has_time: bool = True


_POSSESSIONS = ROLES | word_set(
    """car bike bicycle motorbike house flat apartment garden van boat degree phd allergy tattoo piano
    guitar violin laptop licence license diploma certificate sibling pet disability business blog
    podcast"""
)
_WITH_TOOLS = frozenset({"uses", "runs_on", "does_not_use"})
_VERSIONED = re.compile(r"^(?P<tool>\S+(?:\s[A-Za-z]\S*)?)\sv?\d[\w.]*$")
_AND_TOOL = re.compile(r"[\s\dv.]*(?:,\s(?:and\s)?|\sand\s|\s[&+]\s)$")
_HOMES = re.compile(
    r"\b(?:(?<!in\s)(?<!of\s)(?<!for\s)(?:a|an|the|my|our)\s(?:[\w-]+\s){0,2}(?:flat|apartment|house|town|city|village)"
    r"|landlord|landlady|neighbou?rs?|flatmates?|roommates?|(?:house|home)\sto|where\s(?:I|we|he|she)\s(?:now\s)?lived?|lived?\s(?:there|here))\b",
)
"""Words of a home, which make a home of a name after "moved to" that no list has."""
_NO_HOME = re.compile(
    r"['’]s\b|\b(?:team|squad|group|crew|department|dept|division|unit|desk|office|branch|sales|marketing|finance|engineering"
    r"|design|product|support|legal|hr|operations|ops|research|accounting|procurement|logistics|it|qa|data|security|infrastructure"
    r"|platform|payments|growth|management|consulting|development|people|level|grade|plan|phase|step|stage|chapter|version"
    r"|lead|manager|engineer|director|head|senior|junior|staff|premium|pro|windows|mac)\b",
    re.IGNORECASE,
)
"""Words of teams, departments, roles and other things that a person may move to."""
_WANTS_NAME = frozenset({"organization", "place", "person"})
_NAME_AND_VERB = re.compile(r"((?:^|\s)[A-ZÀ-Þ]\S*?),?\sand\s[a-zà-þ].*$")
_EMPTY_GOAL = re.compile(
    r"(?:make\s(?:sure|it|this|them|that|the\smost)|ensure|keep|know|see|give\sup|quit|try|be\b(?!\san?\s)"
    r"|do\s(?:my|their|it|this|that|the\ssame)|remember|forget|let|come|say|this|it|them|that|get\sit"
    r"|help\b(?!\s\w+\s\w+)"
    r"|stay\b(?!\s(?:in|at|with))|check\s(?:it|them|out)|think|start\sthinking|stop|find\sout"
    r"|be\sa\s(?:big|great)|meet\sthis)\b",
    re.IGNORECASE,
)
_EVENTS = word_set(
    """joined adopted bought sold visited travelled_to went_to went attended painted wrote won lost met hired signed
    finished graduated_from started released married moved_into"""
)
_OF_PAST = word_set("bought sold flew went gone took wrote won lost met began begun got")
_WERE = word_set("lived worked played studied owned managed supervised led maintained used reported volunteered hosted")
_ENDED = re.compile(r"\b(?:until|till|from\s.{2,30}?\sto|between)\b")
_USED_TO = re.compile(
    r"to\s(?P<verb>live|work|play|study|own|use|drink|eat|teach|collect)\s(?P<rest>[^,.;!]+?)"
    r"(?=\s*(?:[,.;!]|$)|\s(?:but|and\snow|until|as\sa\s(?:child|kid|student|teenager))\b)"
)
_TASTES = word_set("likes prefers dislikes wants fears minds tolerates age called value")
_RETURNED = re.compile(
    r"\b(?:(?:came|went|moved|come|gone|moving)\s(?:right\s|straight\s)?(?:back|home|away|on|out|again|to|from)|(?:have\s|has\s)?returned"
    r"|left(?=\s*(?:[.,;!]|$)|\s(?:again|in|after|last|it|there|two|three|a)\b))\b"
)
_DENIED_WISH = {"plans_to": "plan_to", "wants_to": "want_to", "considers": "consider"}
_CALLED = re.compile(
    r"\b(?P<role>[a-z]{3,15})(?:,?\s(?:called|named)\s|,\s)(?P<name>[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30}){0,2})"
)
_AS_ROLE = re.compile(r"\sas\s(?:an?\s|the\s|their\s)?(?P<o>[a-z][\w\s-]{2,50})")


def relate(clause: Clause) -> Iterator[Triple]:
    """The relations of a clause, the most important first; none if the table does not know its verb."""
    if clause.wish or clause.modal in ("plans_to", "considers"):
        yield from _wished(clause)
        return
    if clause.modal in ("would", "could", "should"):
        return
    if clause.head == "used" and (before := _what_was(clause)):
        yield before
        return
    if clause.head in ("be", "became", "becomes", "have", "has", "had", "got") and (owned := _named_role(clause)):
        yield owned
        return
    for rule in VERBS.get(clause.head, ()):
        found = rule.then.match(clause.rest)
        if found and (triple := _triple(clause, rule, found)):
            yield triple
            if triple.relation in _WITH_TOOLS and triple.object_type in ("tool", "language"):
                yield from _further_tools(clause.rest, triple)
            if (
                triple.relation == "works_at"
                and (role := _AS_ROLE.search(clause.rest))
                and (title := read_object(role["o"]))
            ):
                yield Triple("has_role", title)
            return


_SHARED = re.compile(r"(?:,?\sand|,)\s(?=(?:(?:also|now|currently|still)\s)?(?P<verb>[a-z]{2,})\s)")
_SHORT = re.compile(r"['’](?:m|s|re|ve|ll|d)$")
_SUBORDINATE = re.compile(
    r"\b(?:who|whom|whose|that|which|where|when|what|how|why|if|whether|because|although|though|while|than)\b",
    re.IGNORECASE,
)
_SEVERAL = word_set("parents kids children")


def with_shared_subject(clause: Clause) -> list[tuple[int, Clause]]:
    """The clause and each further state of its subject, with the offsets where their own words begin.

    "I live in Porto and work at Figma" are two facts, because each may end without the other. Wishes, denials and
    events go on in the words after them ("I want to live in Porto and work at Figma"), so they stay whole. After a
    relative clause the further verb may be that of somebody else ("Anna, who lives in Porto and works at Figma").
    """
    if clause.head == "used" or not _is_state(clause):
        return [(clause.start, clause)]
    for border in _SHARED.finditer(clause.text, len(clause.opening)):
        if _SUBORDINATE.search(clause.text, len(clause.opening), border.start()):
            break
        first = parse(clause.text[: border.start()], clause.start, is_verb)
        goes_on = border["verb"].endswith("ing") or (clause.perfect and border["verb"].endswith("ed"))
        opening = clause.opening if goes_on else _SHORT.sub("", clause.opening)  # "I'm a nurse and live in Bath"
        more = parse(f"{opening} {clause.text[border.end() :]}", clause.start, is_verb)
        is_finite = more is not None and is_verb(more.head) and (more.copula or not border["verb"].endswith("ing"))
        agrees = goes_on or _takes_s(clause) == bool(re.search(r"[^s]s$", border["verb"]))
        if first and more and is_finite and agrees and _is_state(first) and _is_state(more):
            shift = border.end() - len(opening) - 1
            rest = [(offset + shift, other) for offset, other in with_shared_subject(more)[1:]]
            return [(clause.start, first), (clause.start + border.end(), more), *rest]
    return [(clause.start, clause)]


def _takes_s(clause: Clause) -> bool:
    """Whether a verb of the present ends in -s after the subject: "Anna lives", but "I live", "my parents live"."""
    if clause.kind == "the":
        return not re.search(r"[^s]s$", clause.name)
    return clause.kind != "first" and clause.role not in _SEVERAL


def _is_state(clause: Clause) -> bool:
    is_fact = not (clause.wish or clause.modal or clause.negated or clause.ended)
    return is_fact and any(triple.relation in STATES and not triple.ended for triple in relate(clause))


def _what_was(clause: Clause) -> Triple | None:
    """ "I used to play the cello": the relation that is over, unless only the manner or the place has changed."""
    found = _USED_TO.match(clause.rest)
    if not found or clause.negated:
        return None
    past = next(relate(replace(clause, head=found["verb"], rest=found["rest"], ended=True)), None)
    is_whole = past is not None and past.ended and found["rest"].endswith(past.object)
    return None if not is_whole or re.search(r"\b[a-z]+ly$", found["rest"]) else past


def _further_tools(rest: str, first: Triple) -> Iterator[Triple]:
    """The tools that follow the first in one list: "Flask 2.3, Python 3.11 and SQLite"."""
    at = rest.find(first.object) + len(first.object)
    for name in spot(rest[:200]):
        if name.is_known and name.start > at:
            if not _AND_TOOL.match(rest[at : name.start]):
                return
            at = name.end
            yield replace(
                first, object=name.text, object_type=type_of(name.text), replaced=name.text if first.ended else ""
            )


def _triple(clause: Clause, rule: Rule, found: re.Match[str]) -> Triple | None:
    """The triple of a matched rule, with negation, end and replaced object."""
    groups = found.groupdict()
    raw = groups.get("o") or groups.get("p") or groups.get("q") or ""
    thing = (
        impersonal(read_object(raw))
        if rule.relation not in ("age", "has_role")
        else raw.split(",")[0].strip(" .!")
        if rule.relation == "age"
        else _role_of(raw)
    )
    if rule.type.rstrip("?") in _WANTS_NAME and not is_known(thing):
        thing = _NAME_AND_VERB.sub(r"\1", thing)
    if not thing or not _fits(rule, thing, raw) or not _is_so(clause, rule, thing):
        return None
    old = read_object(groups.get("old") or groups.get("old2") or "")
    if rule.type == "switch" and not any(_tool_type(name) for name in (thing, old) if name):
        return None
    if rule.relation in _WITH_TOOLS and (versioned := _VERSIONED.match(thing)) and type_of(versioned["tool"], ""):
        thing = versioned["tool"]
    if rule.relation in ("lives_in", "moved_from") and not _is_home(clause, thing, old):
        return Triple("moved_to", thing) if _is_a_move(clause, rule, thing, old) else None
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
        return (
            replace(triple, relation=rule.denied, replaced=thing if dropped else "", action="retract")
            if rule.denied and not rule.ended
            else None
        )
    if rule.relation == "lives_in" and clause.head in ("moving", "relocating"):
        return replace(
            triple, relation="plans_to", object=f"move to {thing}", object_type="", replaced="", confidence=WEAK
        )
    return triple


def _is_so(clause: Clause, rule: Rule, thing: str) -> bool:
    """Whether the relation holds or happened: not "I start chemo in May", "I lived in Kiel", "I work on Monday"."""
    is_past = clause.perfect or clause.negated or clause.head in _OF_PAST or clause.head.endswith("ed")
    if rule.relation in _EVENTS and not is_past:
        return False
    is_over = clause.head in _WERE and rule.relation != "used_to"
    if is_over and not (clause.perfect or clause.negated or clause.copula or _ENDED.search(clause.rest)):
        return False
    is_time = any(find_hint(words) == words for words in (f"in {thing}", f"on {thing.removesuffix('s')}"))
    return rule.relation in _TASTES or not is_time


def has_moved_on(words: str, place: str) -> bool:
    """Whether the words after a move name a return or another move: "I moved to Kiel and came back"."""
    _, _, then = words.partition(place)
    return bool(_RETURNED.search(then))


def _tool_type(name: str) -> str:
    versioned = _VERSIONED.match(name)
    return type_of(versioned["tool"] if versioned else name, "")


def _is_home(clause: Clause, thing: str, old: str) -> bool:
    """Whether a person lives there or moved there: the subject can move, and the place is known or clearly a home.

    "I moved to Stripe" tells of a job, "I moved to Notion" of a tool, and no list has them all.
    """
    if type_of(thing) in ("tool", "language"):
        return clause.head not in MOVES  # "I live in vim" is read as use
    if not _is_someones(clause):
        return False
    if any(map(str.isdigit, thing)) or not any(word[0].isupper() for word in thing.split()):
        return False
    if clause.head == "be" and (clause.plural or clause.kind == "named"):
        return is_known(thing) and not clause.plural  # "we are based in Lisbon" is about a company
    if clause.head not in MOVES:
        return True
    if is_known(thing) or (bool(old) and is_known(old)):
        return True
    is_name = thing[0].isupper() and type_of(thing, "place") == "place" and not _NO_HOME.search(thing)
    return is_name and not clause.copula and bool(_HOMES.search(clause.text))


def _is_a_move(clause: Clause, rule: Rule, thing: str, old: str) -> bool:
    """Whether a person moved to what may be a town, a job or a tool: an event, which ends nothing."""
    if rule.relation != "lives_in" or clause.head not in ("moved", "relocated") or old or not thing[0].isupper():
        return False
    # "We" and names may be companies: "Kestrel moved to Fargate".
    is_person = clause.kind != "named" and not clause.plural and _is_someones(clause)
    is_plain = not (clause.negated or clause.ended or clause.copula)
    return is_person and is_plain and type_of(thing, "place") == "place" and not _NO_HOME.search(thing)


def _is_someones(clause: Clause) -> bool:
    """Whether the subject of a clause can live somewhere."""
    if clause.kind == "owned":
        return clause.role in PEOPLE | ANIMALS
    return clause.kind != "the" and (clause.kind != "named" or type_of(clause.name, "person") == "person")


def _fits(rule: Rule, thing: str, raw: str) -> bool:
    """Whether the object is of the kind that the relation needs."""
    if rule.type in _WANTS_NAME:
        named = any(word[0].isupper() for word in thing.split())
        if rule.relation == "member_of" and rule.ended:
            return True
        return (
            named
            or type_of(thing) in ("tool", "language")
            or (rule.type == "organization" and bool(ARTICLE.match(raw)) and not thing[0].isdigit())
        )
    if rule.relation == "has":
        return any(
            word.removesuffix("s") in _POSSESSIONS for word in thing.lower().split()
        ) and not raw.lower().startswith(("to ", "no idea"))
    if rule.relation in ("stays_with", "version", "called", "works_with", "partner_of"):
        return thing[0].isupper() or thing[0].isdigit()
    if rule.relation == "runs_on" or rule.type == "switch":
        return not thing[0].isdigit() or rule.replaces
    return not thing[0].isdigit() or rule.relation in ("age", "has", "eats", "drinks")


def _type(expected: str, thing: str) -> str:
    """The object's entity type; empty for a literal. Only names become entities."""
    known = type_of(thing, "")
    if known:
        return known
    if expected and expected != "switch" and thing[0].isupper():
        return expected.rstrip("?")
    return "concept" if thing[0].isupper() and len(thing.split()) <= 4 else ""


def _role_of(raw: str) -> str:
    """A role with its "of …" and "at …", up to the first comma."""
    stop = re.search(r"[,;.!]|\s(?:from|since|on|because|and|but|now|starting|who|which)\s|\sin\s(?=[A-Z\d])", raw)
    return (raw[: stop.start()] if stop else raw).strip()[:80]


def _wished(clause: Clause) -> Iterator[Triple]:
    """A wish, plan, consideration or attempt, with its goal in the words of the speaker."""
    relation = clause.wish or clause.modal
    if clause.modal == "plans_to" and clause.head == "be" and not clause.wish:
        yield from (
            replace(triple, confidence=WEAK)
            for triple in relate(replace(clause, modal="", wish=""))
            if triple.relation in ("has_role", "member_of")
        )
        return
    if clause.wish == "tries_to":
        relation = "works_on"
    stop = re.search(r"[;!?…]|\.(?!\d)|,|\s-\s|\s(?:because|but|since|so that|although|though|which)\s", clause.phrase)
    goal = impersonal((clause.phrase[: stop.start()] if stop else clause.phrase).strip(" .")[:120])
    if len(goal) < 4 or ADDRESSED.search(goal) or _EMPTY_GOAL.match(goal):
        return
    if clause.negated:
        if relation not in _DENIED_WISH or not re.search(r"\s[A-Z]", goal):
            return
        yield Triple(f"does_not_{_DENIED_WISH[relation]}", goal,
                     replaced=goal, action="retract", confidence=WEAK)  # fmt: skip
        return
    yield Triple(relation, goal, confidence=WEAK)


def _named_role(clause: Clause) -> Triple | None:
    """ "a cat called Pixel", "my manager is Priya", "Anna is my sister": a role and the name of its bearer."""
    if clause.negated:
        return None
    if clause.kind == "owned" and clause.head == "be" and not clause.name:
        named = re.match(
            r"(?:(?:called|named)\s)?(?P<name>[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30}){0,2})(?=[\s,.:;!]|$)",
            clause.rest,
        )
        if named and type_of(named["name"]) not in ("tool", "language"):
            bearer = Triple(
                f"has_{clause.role}", named["name"], role_type(clause.role, named["name"]), subject="speaker"
            )
            is_over = clause.ended or FORMER.search(clause.opening)
            return replace(bearer, ended=True, replaced=named["name"]) if is_over else bearer
    if clause.kind == "first" and clause.head != "be":
        called = _CALLED.search(clause.rest)
        if called and called["role"] in ROLES:
            return Triple(f"has_{called['role']}", called["name"], role_type(called["role"], called["name"]))
    if clause.kind == "named" and clause.head in ("be", "became", "becomes"):
        whose = re.match(
            r"my\s(?:(?:older|younger|little|big|best|new|former|old)\s)?(?P<role>[a-zé-]{2,20})(?=[\s,.;!]|$)",
            clause.rest,
        )
        if whose and whose["role"] in ROLES:
            return Triple(f"has_{whose['role']}", clause.name, role_type(whose["role"], clause.name), subject="speaker")
    return None


def role_type(role: str, name: str) -> str:
    """The entity type of somebody's sister, dog, team or project; empty if the vet may be a firm ("Green Paws")."""
    if role in OFFICES:
        return "person" if is_given_name(name.partition(" ")[0]) else ""
    if role in PEOPLE or role.endswith("-in-law"):
        return "person"
    if role in ("team", "company", "employer", "startup", "band", "club", "shop", "store", "studio"):
        return "organization"
    return "project" if role in ("project", "app", "product", "website") else "concept"


_MARKERS = word_set(
    """el la los las de del que y en un una es no me mi mis su se con por para desde hace pero muy también
    porque vive vivo trabajo trabaja soy estoy tengo tiene gusta gustan prefiero uso como nos al lo ya
    así"""
)
_NAME = r"[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30}){0,2}"
_ROLES = {
    "hermana": "sister", "hermano": "brother", "madre": "mother", "padre": "father", "hija": "daughter",
    "hijo": "son", "mujer": "wife",
    "esposa": "wife", "marido": "husband", "esposo": "husband", "novia": "girlfriend", "novio": "boyfriend",
    "pareja": "partner",
    "amiga": "friend", "amigo": "friend", "jefa": "manager", "jefe": "manager", "prima": "cousin",
    "primo": "cousin", "tía": "aunt",
    "tío": "uncle", "abuela": "grandmother", "abuelo": "grandfather", "perro": "dog", "perra": "dog",
    "gato": "cat", "gata": "cat",
}  # fmt: skip
_WHO = (
    rf"(?:(?:[Mm]i\s(?P<role>{'|'.join(_ROLES)})(?:,?\s(?P<name>{_NAME}))?)|(?P<named>{_NAME})"
    rf"|(?P<ella>[ÉEé]l|[Ee]lla)),?\s(?:(?:también|ahora|ya|todavía|aún)\s)?"
)
_THIRD: tuple[tuple[re.Pattern[str], str, str, str], ...] = tuple(
    (re.compile(rf"{_WHO}(?P<no>no\s)?{then}\s(?P<o>\S.*)"), relation, kind, denied)
    for then, relation, kind, denied in (
        (r"vive\sen", "lives_in", "place", "does_not_live_in"),
        (r"trabaja\s(?:en|para)", "works_at", "organization", "does_not_work_at"),
        (r"se\sllama", "called", "person", ""),
        (r"prefiere", "prefers", "", "does_not_prefer"),
        (r"usa", "uses", "", "does_not_use"),
        (r"es\s(?:un|una)", "is_a", "", "is_not"),
    )
)
_FIRST: tuple[tuple[re.Pattern[str], str, str, str], ...] = tuple(
    (re.compile(rf"\b(?P<no>no\s)?{then}\s(?P<o>\S.*)", re.IGNORECASE), relation, kind, denied)
    for then, relation, kind, denied in (
        (r"(?<!se\s)vivo\sen", "lives_in", "place", "does_not_live_in"),
        (r"trabajo\s(?:en|para)(?!\s(?:casa|esto|eso))", "works_at", "organization", "does_not_work_at"),
        (r"me\sgusta(?:n)?(?:\smucho)?", "likes", "", "dislikes"),
        (r"me\sencanta(?:n)?", "likes", "", "dislikes"),
        (r"prefiero", "prefers", "", "does_not_prefer"),
        (r"odio", "dislikes", "", ""),
        (r"soy\salérgic[oa]\sa", "allergic_to", "", "not_allergic_to"),
        (r"uso", "uses", "", "does_not_use"),
        (r"bebo", "drinks", "", "does_not_drink"),
    )
)
SPANISH_JOINT = re.compile(
    r",?\s(?:y|e|pero)\s(?=(?:(?:también|ahora|no)\s)?(?:vivo|trabajo|uso|bebo|prefiero|odio|soy|me\s(?:gusta|encanta)))"
)
"""Where a second state of the speaker begins; the verb alone names the speaker."""
_DO_NOT_EAT = re.compile(r"\bno\scomo\s(?P<o>(?!si\b|para\b|que\b)\S.*)", re.IGNORECASE)
_SHE_IS = re.compile(r"(?:(?:[ÉEé]l|[Ee]lla)\s)?[Ee]s\s(?P<un>una?\s)?(?P<o>[a-zà-þ]{4,}.*)")
_MOVED = re.compile(rf"\b[Mm]e\smudé\s(?:de\s(?P<old>{_NAME})\s)?a\s(?P<o>{_NAME})")
_NAMED_ROLE = re.compile(rf"\b[Mm]i\s(?P<role>{'|'.join(_ROLES)}),?\s(?:se\sllama\s)?(?P<o>{_NAME})")
_STOP = re.compile(
    r"[,;.!?()]|\s(?:y|e|pero|porque|desde|así|con|sin|que|cuando|donde|para|hace|en|ahora|ya|como|ni|o|hoy|ayer)\s",
    re.IGNORECASE,
)
_RATHER_THAN = re.compile(r"\s(?:al?|antes\sque|sobre)\s", re.IGNORECASE)
_INFINITIVE = re.compile(r"\w{2,}[aei]r\b|ir\b", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:el|la|los|las|un|una|unos|unas|mi|su)\s", re.IGNORECASE)


@lru_cache(maxsize=64)
def is_spanish(sentence: str) -> bool:
    """Whether a sentence has the small words of Spanish."""
    words = sentence[:300].lower().split()
    return len(words) > 2 and sum(word.strip("¿¡,.;:!?") in _MARKERS for word in words) * 4 >= len(words)


def relate_spanish(sentence: str, speaker: str, last_person: str) -> Iterator[Triple]:
    """The relations of a Spanish sentence, each with its subject: the verb alone may name it."""
    for named in _NAMED_ROLE.finditer(sentence):
        role = _ROLES[named["role"].lower()]
        kind = "concept" if role in ("dog", "cat") else "person"
        yield Triple(f"has_{role}", named["o"], kind, subject=speaker, subject_type="person")
    if moved := _MOVED.search(sentence):
        yield Triple(
            "lives_in",
            moved["o"],
            "place",
            subject=speaker,
            subject_type="person",
            replaced=moved["old"] or "",
            confidence=LIKELY,
        )
    if last_person and (described := _SHE_IS.match(sentence)):
        yield from _spanish_triple(described["o"], "is_a" if described["un"] else "is", "", last_person)
    if refused := _DO_NOT_EAT.search(sentence):
        yield from _spanish_triple(refused["o"], "does_not_eat", "", speaker)
    for pattern, relation, kind, denied in _THIRD:
        if (match := pattern.search(sentence)) and not (relation == "called" and match["role"]):
            owned = f"{speaker}'s {_ROLES[match['role'].lower()]}" if match["role"] else last_person
            who = match["name"] or match["named"] or owned
            if who:
                yield from _spanish_triple(match["o"], denied if match["no"] else relation, kind, who)
    for pattern, relation, kind, denied in _FIRST:
        if found := pattern.search(sentence):
            yield from _spanish_triple(found["o"], denied if found["no"] else relation, kind, speaker)


def _spanish_triple(rest: str, relation: str, kind: str, who: str) -> Iterator[Triple]:
    if "prefer" in relation and not _INFINITIVE.match(rest):
        rest = _RATHER_THAN.split(rest, maxsplit=1)[0]
    stop = _STOP.search(rest)
    thing = _ARTICLE.sub("", (rest[: stop.start()] if stop else rest).strip())[:80]
    if relation and len(thing) > 1 and not (kind in ("place", "organization", "person") and not thing[0].isupper()):
        known = kind if kind and thing[0].isupper() else type_of(thing, "")
        yield Triple(relation, thing, known, subject=who, subject_type="person", confidence=LIKELY)
