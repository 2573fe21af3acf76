"""The table of verbs: the possible rest of a clause with each verb, and the relation of that clause."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowwave.text import word_set

_NUMBER = (
    r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    r"|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty)"
)
_JOB = (
    r"(?:lead|nurse|engineer|developer|manager|director|teacher|architect|designer|analyst|scientist"
    r"|consultant|lawyer|doctor|chef|cook|writer|editor|student|intern|founder|ceo|cto"
    r"|freelancer|accountant|researcher|professor|artist|musician|photographer|therapist|counsel+or|owner"
    r"|head|officer|assistant|administrator|programmer|veterinarian|vet|pilot|driver)"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: the pattern of the rest, the relation, the object's type, and the relation of a denial."""

    then: re.Pattern[str]
    relation: str
    type: str = ""
    denied: str = ""
    ended: bool = False
    replaces: bool = False


_O = r"(?P<o>\S.*)"
MOVES = frozenset({"move", "moves", "moved", "moving", "relocate", "relocated", "relocating"})
"""Verbs of a change of home; they also have other meanings."""
_SWITCHES = (
    r"(?:(?:over|back|away|completely|fully|entirely)\s)*(?:from\s(?P<old>[^,;]{2,60}?)\s(?:over\s)?to\s(?P<o>\S.*)"
    r"|to\s(?P<p>[^,;]{2,60}?)\s(?:instead\sof|from)\s(?P<old2>[^,;.]{2,60})|to\s(?P<q>\S.*))"
)
_MOVES_HOME = (
    r"(?:(?:over|back|away|out|house|home|together)\s)*(?:from\s(?P<old>[^,;]{2,60}?)\s(?:over\s|back\s)?to\s(?P<o>\S.*)"
    r"|to\s(?P<p>[^,;]{2,60}?)\sfrom\s(?P<old2>[^,;.]{2,60})|to\s(?P<q>\S.*))"
)
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
    ("move moves moved moving relocate relocated relocating", _MOVES_HOME, "lives_in", "place", "is_not_moving_to"),
    ("move moved relocated", rf"(?:(?:over|back|away|out|here)\s)?from\s{_O}", "moved_from", "place", ""),
    ("move moved relocated", rf"(?:in|into)\s{_O}", "moved_into", "", ""),
    ("stay stays staying stayed", rf"with\s{_O}", "stays_with", "person?", ""),
    ("grew grow", rf"up\sin\s{_O}", "grew_up_in", "place", "did_not_grow_up_in"),
    ("prefer prefers preferred",
     r"(?P<o>\S[^,;]{0,80}?)\s(?:over|rather\sthan|instead\sof|to)\s(?P<than>\S.*)", "prefers", "",
     "does_not_prefer"),
    ("prefer prefers preferred", _O, "prefers", "", "does_not_prefer"),
    ("like likes liked love loves loved enjoy enjoys enjoyed enjoying loving adore adores", _O, "likes", "",
     "dislikes"),
    ("hate hates hated dislike dislikes detest detests despise loathe loathes", _O, "dislikes", "",
     "does_not_dislike"),
    ("stand bear tolerate", _O, "tolerates", "", "dislikes"),
    ("mind minds", _O, "minds", "", "does_not_mind"),
    ("used", rf"to\s{_O}", "used_to", "", ""),
    ("use uses using used", _O, "uses", "", "does_not_use"),
    ("run runs running", rf"(?:\w+\s){{0,2}}on\s{_O}", "runs_on", "", "does_not_run_on"),
    ("run runs running ran", _O, "runs", "", "does_not_run"),
    ("built written implemented", rf"(?:with|on|in|using)\s{_O}", "uses", "", "does_not_use"),
    ("deploy deploys deployed deploying host hosted", rf"(?:\w+\s){{0,3}}?(?:on|to|with)\s{_O}", "runs_on",
     "", "does_not_run_on"),
    ("upgrade upgraded update updated bump bumped",
     r"(?!from\s)(?P<s>\S[^,;]{0,50}?)\sfrom\s(?P<old>[^,;]{1,30}?)\sto\s(?P<o>\S.*)", "version", "", ""),
    ("switch switched switching migrate migrated migrating convert converted change changed changing "
     "transition transitioned upgrade upgraded port ported",
     _SWITCHES, "uses", "switch", "did_not_switch_to"),
    ("replace replaced replacing swap swapped", r"(?P<old>\S[^,;]{0,60}?)\s(?:with|by|for)\s(?P<o>\S.*)",
     "uses", "switch", ""),
    ("have has having got", rf"(?:(?:an?|one|no|any)\s)?{_O}", "has", "", "does_not_have"),
    ("adopt adopted adopting", _O, "adopted", "", "did_not_adopt"),
    ("buy bought", _O, "bought", "", "did_not_buy"),
    ("sell sells selling", _O, "sells", "", "does_not_sell"),
    ("sold", _O, "sold", "", "did_not_sell"),
    ("study studies studied studying", _O, "studies", "", "does_not_study"),
    ("learn learning learned learns", _O, "learns", "", "does_not_learn"),
    ("speak speaks speaking", r"(?P<o>(?:fluent\s|a\slittle\s|some\s)?[A-Z]\w+.*)", "speaks", "language",
     "does_not_speak"),
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
    ("launch launched open opened release released ship shipped publish published deployed", _O, "released",
     "", "has_not_released"),
    ("marry married", _O, "married", "person?", "did_not_marry"),
    ("got get getting", r"(?P<o>married|engaged|divorced)\b.*", "is", "", "is_not"),
    ("want wants", r"(?P<o>(?!.*\sto\s)\S.*)", "wants", "", "does_not_want"),
    ("listen listens", rf"to\s{_O}", "listens_to", "", "does_not_listen_to"),
    ("know knows", r"how\sto\s(?P<o>\S.*)", "knows_how_to", "", "does_not_know_how_to"),
    ("promoted", rf"to\s(?:be\s)?{_O}", "has_role", "", ""),
    # after a form of "to be"
    ("be", rf"(?:an?\s)?(?:proud\s|new\s)?member\sof\s{_O}", "member_of", "organization", "not_member_of"),
    ("be", rf"allergic\sto\s{_O}", "allergic_to", "", "not_allergic_to"),
    ("be", rf"(?:originally\s)?from\s{_O}", "is_from", "place", "is_not_from"),
    ("be", rf"based\sin\s{_O}", "lives_in", "place", "does_not_live_in"),
    ("be", rf"born\sin\s{_O}", "born_in", "", "not_born_in"),
    ("be", rf"(?:married|engaged)\sto\s{_O}", "partner_of", "person", "not_partner_of"),
    ("be",
     rf"(?:an?\s)?(?:big\s|huge\s|great\s)?(?:fan\sof|fond\sof|keen\son|passionate\sabout|crazy\sabout"
     rf"|obsessed\swith|into)\s{_O}", "likes", "", "dislikes"),
    ("be", rf"(?:called|named)\s{_O}", "called", "", "not_called"),
    ("be", rf"(?:responsible\sfor|in\scharge\sof)\s{_O}", "responsible_for", "", "not_responsible_for"),
    ("be", rf"interested\sin\s{_O}", "interested_in", "", "not_interested_in"),
    ("be", rf"(?:afraid|scared|terrified)\sof\s{_O}", "fears", "", "does_not_fear"),
    ("be", rf"(?P<o>{_NUMBER})(?:\syears\sold)?(?=\s*(?:[.,;!]|and\b|now\b|$)).*", "age", "", ""),
    ("turned turn turns", rf"(?P<o>{_NUMBER})\b.*", "age", "", ""),
    ("be",
     r"(?P<o>(?:vegetarian|vegan|pescatarian|diabetic|pregnant|single|divorced|retired|left-handed"
     r"|colou?r-?blind"
     r"|transgender|trans|gay|bisexual|lactose[-\s]intolerant|unemployed|bilingual)\b.*)",
     "is", "", "is_not"),
    ("be",
     rf"(?:going\sto\sbe\s|now\s|acting\s)?(?:an?\s|the\s|our\s|your\s)?(?P<o>(?:(?!not\b)[\w-]+\s){{0,3}}?"
     rf"{_JOB}\b(?:\s(?:nurse|of|at|for)\b.*)?)(?=[\s,.;!]|$).*",
     "has_role", "", "is_not"),
    ("be",
     r"(?:an?|our)\s(?P<o>(?!bit\b|lot\b|little\b|few\b|pity|shame|mess|bummer|must\b|joy|pleasure|good|great|big\sdeal|real|huge|while"
     r"|tough|hard|total|true|long|bad|nice|step|part|sign|reminder"
     r"|blast|mix|lifesaver|busy|crazy|treat|challenge|work|lovely|beautiful|wonderful|perfect|amazing"
     r"|super|really|very|game|thing|way|dream|journey)\S.*)", "is_a", "", "is_not"),
)  # fmt: skip
_ENDINGS: tuple[tuple[str, str, str, str], ...] = (
    # verbs of an end · how it goes on · relation that ends · type
    ("left", r"(?P<o>(?:the\s)?[A-Z]\S.*)", "works_at", "organization"),
    ("left quit", r"(?:my|the)\s(?:\w+\s)?(?:job|position|role|post)\s(?:at|with)\s(?P<o>(?:the\s)?[A-Z]\S.*)",
     "works_at", "organization"),
    ("left quit", r"(?:my|the)\s(?P<o>(?:\w+\s)?(?:job|company|team|position)\b.*)", "works_at", ""),
    ("left quit leave",
     r"(?:the|my|our)\s(?P<o>(?:[\w'’-]+\s){0,4}(?:club|team|band|group|choir|gym|society"
     r"|association|committee|board|course|class"
     r"|church)\b.*)", "member_of", "organization"),
    ("quit resigned", r"(?:from\s)?(?P<o>(?:the\s)?[A-Z]\S.*)", "works_at", "organization"),
    ("stopped stop quit", r"using\s(?P<o>\S.*)", "uses", ""),
    ("stopped quit", r"drinking\s(?P<o>\S.*)", "drinks", ""),
    ("stopped quit", r"eating\s(?P<o>\S.*)", "eats", ""),
    ("stopped quit", r"(?:working\s(?:at|for))\s(?P<o>\S.*)", "works_at", "organization"),
    ("stopped quit", r"(?:working\son)\s(?P<o>\S.*)", "works_on", ""),
    ("stopped quit", r"(?:playing)\s(?P<o>\S.*)", "plays", ""),
    ("gave give given", r"up\s(?:on\s)?(?P<o>\S.*)", "gave_up", ""),
    ("dropped drop ditched abandoned retired deprecated removed uninstalled cancelled canceled",
     r"(?:support\sfor\s)?(?P<o>\S.*)", "uses", ""),
)  # fmt: skip


EVENTS = (
    r"trip|tour|cruise|flight|ride|hike|walk|party|meeting|meetup|wedding|marriage|engagement|dinner|lunch|brunch|breakfast|supper"
    r"|barbecue|bbq|picnic|drinks|appointment|concert|gig|festival|conference|congress|workshop|webinar|seminar|lecture|talk"
    r"|call|interview|audition|visit|holidays?|vacation|weekend|retreat|offsite|game|match|race|marathon|tournament|launch|release"
    r"|roll[-_]?out|migration|relocation|move|rewrite|redesign|renovation|refactoring|sale|merger|acquisition"
    r"|takeover|purchase|event|gathering|reunion|celebration|ceremony|exam|lesson|course"
    r"|session|rehearsal|exhibition|demo|experiment|strike|sleepover|playdate|surgery|operation|training|sprint|expedition"
    r"|excursion|journey|viaje|reunión|fiesta|boda|cita"
)
"""Nouns of events that have a day."""
DATED = rf"^scheduled_for$|(?:^|_)(?:{EVENTS})s?_date$"
"""A pattern of relations whose object is the day of an event; each has one at a time."""

RESCHEDULED = (
    r"(?:(?:moved|pushed|bumped|shifted)(?:\s(?:back|forward|up|out))?|postponed|rescheduled|re-?booked|changed|delayed"
    r"|deferred|adjourned|brought\s(?:forward|up|back)|put\s(?:off|back|forward))"
)
"""Participles of a change of day: "was moved back to 9 July"."""

_AWAY = r"(?=\s(?:to|into|in|from|out|back|home|house|flat|off|over|on|with|next|this)\b)"
EVENT_VERBS = (
    # nouns of an event · verbs for it · what follows the verb
    ("wedding marriage", "marry marries marrying married", ""),
    ("move relocation", "move moves moving relocate relocates relocating", _AWAY),
    ("flight", "fly flies flying", _AWAY),
    ("surgery operation", "operated", ""),
    ("interview", "interview interviews interviewing interviewed", r"(?=\s(?:at|with|by|for|on|in|next|this)\b)"),
    ("graduation", "graduate graduates graduating", ""),
    ("opening", "open opens opening", r"(?=\s(?:on|in|at|its|to|next|this)\b)"),
    ("launch release", "launch launches launching", r"(?=\s(?:on|in|at|to|next|this)\b)"),
    (
        "party celebration",
        "celebrate celebrates celebrating",
        r"(?=\s(?:on|in|at|with|next|this)\b|\s(?:[\w'’-]+\s){1,2}birthday\b)",  # a feast has its day
    ),
    ("visit", "visit visits visiting", ""),
)
"""Nouns and verbs that may mean one event: "We marry on 3 May" and "the wedding"."""


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
STATES = word_set(
    """works_at has_role works_on works_with reports_to manages leads maintains owns mentors lives_in prefers likes
    dislikes uses runs_on has sells studies speaks plays drinks eats teaches collects volunteers_at builds goes_to
    member_of allergic_to is is_a is_from partner_of responsible_for interested_in fears age called"""
)
"""Relations that hold for a time, unlike events."""


def is_verb(word: str) -> bool:
    """Whether the table has the word as a verb form."""
    return word in VERBS and word != "be"
