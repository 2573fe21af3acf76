"""One spelling per word for comparing statements: "plays" and "playing" are one, "played" is another (T29).

Two words that are different must never get one spelling; one word with two spellings merely costs a merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slowwave.merging.guard_pairs import DOUBLETS

# base, past, participle where it is another word
_IRREGULAR = """
be - been | become became become | begin began begun | bend bent | bite bit bitten | bleed bled | blow blew blown
break broke broken | bring brought | build built | burn burnt | buy bought | catch caught | choose chose chosen
come came come | deal dealt | dig dug | draw drew drawn | drink drank drunk | drive drove driven | eat ate eaten
fall fell fallen | feed fed | feel felt | fight fought | find found | flee fled | fly flew flown
forbid forbade forbidden | forget forgot forgotten | forgive forgave forgiven | freeze froze frozen | give gave given
go went gone | grow grew grown | hang hung | hear heard | hide hid hidden | hold held | keep kept | know knew known
lead led | leap leapt | learn learnt | leave left | lend lent | lose lost | make made | mean meant | meet met
mistake mistook mistaken | pay paid | prove proved proven | ride rode ridden | ring rang rung | rise rose risen
run ran run | say said | see saw seen | seek sought | sell sold | send sent | shake shook shaken | shine shone
shoot shot | show showed shown | sing sang sung | sink sank sunk | sit sat | sleep slept | speak spoke spoken
spend spent | spin spun | stand stood | steal stole stolen | stick stuck | sting stung | strike struck
swear swore sworn | sweep swept | swim swam swum | swing swung | take took taken | teach taught | tear tore torn
tell told | think thought | throw threw thrown | understand understood | wake woke woken | wear wore worn
weave wove woven | win won | wind wound | write wrote written | bet bet | burst burst | cast cast | cost cost
cut cut | hit hit | hurt hurt | let let | put put | quit quit | read read | set set | shed shed | shut shut
split split | spread spread | thrust thrust
"""
_PLURALS = (
    "men man women woman children child people person feet foot teeth tooth mice mouse geese goose wives wife "
    "knives knife halves half wolves wolf shelves shelf scarves scarf loaves loaf thieves thief shoes shoe toes toe "
    "canoes canoe heroes hero echoes echo movies movie cookies cookie axes axe"
)
_WHOLE = frozenset(
    "going clothing building during morning evening something nothing anything everything ceiling wedding pudding "
    "thing news always perhaps series species lens has was is his its does this us yes".split()
)
# Marks a word in "-ing" that stands for a form of its verb ("is playing"), not for a thing ("the playing").
VERBAL = "'v"
_LASTING_E = re.compile(
    r"(?:[cvz]|[^aeiou][ia]?s|[aeiou]s|[dr]g|[aeiou]g|(?:ch|pl|arr|str)ang|halleng|[bcdfgkpstz]l|[^aeo]at|cre?at|"
    r"[^aeiou]ut|[^aeiou]ur|[^aeiou]ir|[^aeiou]in|[^aeiou]id|[^aeiou]ad|[^aeiou]ak|om|mot|clar|par|plor|gnor|"
    r"invit|excit|ignit|recit)$"
)
_SHORT = re.compile(r"[^aeiou]*[aeiouy][^aeiouwxy]$")
_DOUBLED = re.compile(r"([bdfgklmnprtv])\1$")
_VOWEL = re.compile(r"[aeiouy]")


def _verbs() -> Iterator[tuple[str, list[str]]]:
    for row in _IRREGULAR.replace("\n", "|").split("|"):
        verb, *forms = row.split() or [""]
        if verb:
            yield verb, forms


# "Cut" is taken for the past: "cuts" and "is cutting" are not.
_PAST: Mapping[str, str] = {
    form: verb for verb, forms in _verbs() for form in forms if form not in ("-", "come", "run", "become")
}
PARTICIPLES: Mapping[str, str] = {forms[-1]: verb for verb, forms in _verbs() if verb != "be"}
_SINGULAR: Mapping[str, str] = dict(zip(_PLURALS.split()[::2], _PLURALS.split()[1::2], strict=True))


def stem(word: str) -> str:
    """The one spelling of a lower-cased word; that of a past form ends in "+ed", so that "lived" is not "lives"."""
    own, ending = _parts(word)
    return (DOUBLETS.get(own) or DOUBLETS.get(word) or own) + ending


def base(word: str) -> str:
    """The word without its ending, and in its own spelling: of "opened" "open", of "kids" "kid"."""
    return _parts(word)[0]


def present(participle: str) -> str:
    """The form that a participle's verb has in "she … it": of "eaten" "eats", of "cut" "cuts"."""
    verb = PARTICIPLES.get(participle) or base(participle)
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def _parts(word: str) -> tuple[str, str]:
    if word.endswith(VERBAL):
        return _progressive(word.removesuffix(VERBAL)), ""
    if word in _WHOLE or not word.isalpha():
        return word, ""
    if word in _SINGULAR:
        return _SINGULAR[word], ""
    if word in _PAST:
        return _PAST[word], "+ed"
    if word.endswith("ed") and len(word) > 3 and not word.endswith("eed") and _VOWEL.search(word[:-2]):
        stump = word[:-2]
        return (stump[:-1] + "y" if stump.endswith("i") else _restored(stump)), "+ed"
    return _singular(word), ""


def _progressive(word: str) -> str:
    return _restored(word[:-3]) if word not in _WHOLE and _VOWEL.search(word[:-3]) else word


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")) else word[:-1]


def _restored(stump: str) -> str:
    """A verb's base from what is left without its ending: "rid" is "ride", "runn" is "run"."""
    if _DOUBLED.search(stump):
        is_whole = len(stump) == 3 or stump.endswith("ll")  # "add", "fall"
        return stump if is_whole else stump[:-1]
    needs_e = _SHORT.fullmatch(stump) or (_LASTING_E.search(stump) and not stump.endswith("ss"))
    return stump + "e" if needs_e else stump
