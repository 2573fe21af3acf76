"""Normal forms: statements as ordered lines of stems; equal lines say the same, active or passive (§6.2, T29).

All words count except articles, words of degree and the "is" of "is playing". A text has several lines if grammar
allows several readings: "X is eaten by Y" is also "Y eats X". Two statements with a common line say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import polars as pl

from slowwave.common.lexicon import words_of
from slowwave.common.lexicon.statement_words import DOUBLETS, NUMBER_WORDS, PHRASES, UNITS
from slowwave.common.text import word_set

# One spelling per word: "plays" and "playing" are equal, "played" is not (T29). Two different words must never get one
# spelling; one word with two spellings only costs a merge.


_WHOLE = word_set(words_of("words_with_endings_of_their_own"))
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
    """Each with its past, and its participle where that is another word."""
    for row in words_of("irregular_verbs").split("|"):
        verb, *forms = row.split()
        yield verb, forms


# "Cut" is taken for the past: "cuts" and "is cutting" are not.
_PAST: Mapping[str, str] = {
    form: verb for verb, forms in _verbs() for form in forms if form not in ("-", "come", "run", "become")
}
PARTICIPLES: Mapping[str, str] = {forms[-1]: verb for verb, forms in _verbs() if verb != "be"}
_PLURALS = words_of("irregular_plurals").split()
_SINGULAR: Mapping[str, str] = dict(zip(_PLURALS[::2], _PLURALS[1::2], strict=True))


def stem(word: str) -> str:
    """The spelling of a lower-case word; that of a past form ends in "+ed", so that "lived" is not "lives"."""
    own, ending = _parts(word)
    return (DOUBLETS.get(own) or DOUBLETS.get(word) or own) + ending


def base(word: str) -> str:
    """The word without its ending: of "opened" "open", of "kids" "kid"."""
    return _parts(word)[0]


def present(participle: str) -> str:
    """The form that a participle's verb has in "she … it": of "eaten" "eats", of "cut" "cuts"."""
    verb = base(participle)
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
        if stump.endswith("i"):
            return (stump + "e" if len(stump) == 2 else stump[:-1] + "y"), "+ed"  # "died", "tried"
        return _restored(stump), "+ed"
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
    """The base of a verb from its stump without ending: "ride" of "rid", "run" of "runn"."""
    if _DOUBLED.search(stump):
        is_whole = len(stump) == 3 or stump.endswith("ll")  # "add", "fall"
        return stump if is_whole else stump[:-1]
    needs_e = _SHORT.fullmatch(stump) or (_LASTING_E.search(stump) and not stump.endswith("ss"))
    return stump + "e" if needs_e else stump


# Words that do not change a statement: articles, words of degree, greetings.
EMPTY_WORDS = frozenset("a an the some any very really quite also yes yeah hey hi hello wow oh".split())
# Prepositions of place, means or direction.
PLACES = (
    "in on at with under over behind outside inside above below near beside into onto from to for through across "
    "against along around between towards"
).split()
# Nouns before "of" that stay: "a glass of wine" is no "wine glass".
CONTAINERS = words_of("containers").split()

_LETTER = r"[\p{L}\p{N}\p{M}]"
WORD = rf"{_LETTER}+(?:'{_LETTER}+)*"
_TOKEN = rf"{WORD}|[%$€£<>=+*&|^~#@/\\]|\p{{So}}"
_PLACE = "|".join(PLACES)
_AUX = "is|are|was|were|gets|got"
_BE = "is|are|am|be"
_CONTAINER = "|".join(CONTAINERS)
_PARTICIPLE = "|".join(PARTICIPLES)
_LONGEST = 240  # passives and adverbs are handled in one short sentence only

# "One man" is "a man", but not in "at least one", "one or two", "one of them".
_AS_ARTICLE = (
    (r"\b(least|most|only|just|than|about|another|each|every|no|this|that|or|to|any|which) one\b", "$1 1"),
    (r"\bone (or|to|of|and|more|less|in|is|are|was|has|who|hundred|thousand|million)\b", "1 $1"),
    (r"\bone (\p{L})", "a $1"),
)
_SUBJECTS = {"me": "i", "him": "he", "us": "we", "them": "they"}
_RELATIVE_END = r"(?:,|( (?:is|are|was|were|has|have|and (?:an?|the|is|are|has|have))\b)|([.!]?$))"
_QUALITY = r"(\w+(?:(?:, \w+)* and \w+| \w+ed)?)"
_COLORS = "red|blue|green|yellow|black|white|brown|orange|purple|pink|gr[ae]y|golden|beige|tan|silver"
_HERE = "outdoors|indoors|outside|inside|together|alone|there|here"
_WHICH_IS = r",? (?:which|who|that) (?:is|are) "
_BOTH_QUALITIES = r"(,? (?:which|who|that) (?:is|are) )(\w+) and (\w+)\b"
# Rewriting steps, in this order.
_REWRITES: tuple[tuple[str, str], ...] = (
    (r"(\d),(\d{3})\b", "$1$2"),
    (r"(\d),(\d{3})\b", "$1$2"),
    (r"\bwon't\b", "will not"),
    (r"\b(?:can't|cannot)\b", "can not"),
    (r"\b(\w+)n't\b", "$1 not"),
    (r"\bi'm\b", "i am"),
    (r"\b(\w+)'re\b", "$1 are"),
    (r"\b(\w+)'ve\b", "$1 have"),
    (r"\b(\w+)'ll\b", "$1 will"),
    (r"\b(he|she|it|that|there|who|what|here)'s\b", "$1 is"),
    (r"[-‐-―]", " "),
    (r"\s+", " "),
    (r"\b(?:very|really|quite) ", ""),
    *((rf"\b{phrase}\b", word) for phrase, word in PHRASES.items()),
    (r"\b(?:do|does) not\b", "not"),
    *_AS_ARTICLE,
    # a box made of wood: a wood box; a red colored ball: a red ball
    (r"\b(\w+) (?:made|built) of (\w+)\b", "$2 $1"),
    (rf"\b({_COLORS}) colou?red\b", "$1"),
    # oil for cooking, a machine made for sewing: cooking oil, a sewing machine
    (
        rf"\b(\w+) (?:(?:made|used|built|bred) )?for (\w+ing)(,|\.|$| (?:{_PLACE}|by|and|is|are|was|were|has|have)\b)",
        "$2 $1$3",
    ),
    # there is a man who is singing: a man is singing
    (r"^there (is|are) (.+?) (?:who|that|which) (?:is|are) (\w+ing)\b", "$2 $1 $3"),
    (r"^there (?:is|are) (an?|the|some|two|three|four|five|\d+) ", "$1 "),
    # a dog, which is brown, runs: a brown dog runs
    (rf"\b(an?|the|some|two|three|four) ((?:\w+ )?\w+){_WHICH_IS}{_QUALITY}{_RELATIVE_END}", "$1 $3 $2$4$5"),
    (rf"\b(\w+){_WHICH_IS}{_QUALITY}{_RELATIVE_END}", "$2 $1$3$4"),
    # a man who is in the house, or wearing a hat: a man in the house, a man wearing a hat
    (rf"{_WHICH_IS}({_PLACE}|\w+ing)\b", " $1"),
    # a lens of a camera: a camera lens; a glass of wine is no wine glass
    (rf"\b({_CONTAINER}) of\b", "$1 of'c"),
    (rf"\b(\w+) of (?:(?:an?|the) )?(\w+)(,|\.|$| (?:{_PLACE}|by|and|is|are|was|were|has|have)\b)", "$2 $1$3"),
    # "a black and a white dog" are two
    (r"\band (?:an?|the) ", "and'a "),
    # in May, Ana moved: Ana moved in May
    (rf"^((?:{_PLACE}|during|since|until|after|before) [^,]+), ([^,]+?)[.!]?$", "$2 $1"),
)
_PASSIVE = (
    rf"^(?P<before>(?:.+ (?:is|are) .+ (?:and|and'a|while) )?)(?P<x>.+?) (?P<aux>{_AUX}) (?:being )?"
    rf"(?P<how>(?:\w{{3,}}ly )?)(?P<verb>\w+ed|{_PARTICIPLE})(?P<mid>(?: .+?)?) by (?P<y>.+?)[.!]?$"
)
_PROGRESSIVE = rf"\b(?:{_BE})( not)?((?: \w{{3,}}ly)?) (\w+ing)\b"
_ENDS_INSIDE = r"[.!?;:] "
_CLAUSES = (
    r"[,;:]|\b(?:and|and'a|or|but|who|which|that|because|if|when|while|than|not|no|never|only|"
    r"family|july|italy|reply|supply|emily|assembly|monopoly|anomaly|bully|belly|butterfly)\b"
)


def as_article(texts: pl.Series) -> pl.Series:
    """Lower-case texts with "a" for "one" used as an article."""
    for pattern, replacement in _AS_ARTICLE:
        texts = texts.str.replace_all(pattern, replacement)
    return texts


def read_forms(texts: pl.Series) -> pl.Series:
    """Per text the list of its lines: its stems in order, as grammar allows to read it."""
    frame = pl.DataFrame({"text": texts}).with_row_index("row")
    frame = frame.with_columns(pl.col("text").str.to_lowercase().str.strip_chars())
    frame = _rewritten(pl.concat([frame, _two_qualities(frame)]))
    readings = pl.concat([frame, _active(frame)]).with_columns(_finished(pl.col("text")))
    lines = readings.select("row", lines=_stems(readings["text"]).list.join(" "))
    return lines.group_by("row").agg("lines").sort("row")["lines"]


def _two_qualities(frame: pl.DataFrame) -> pl.DataFrame:
    """For "grass which is tall and green" the readings "tall green grass" and "green tall grass"."""
    some = frame.filter(pl.col("text").str.contains(_BOTH_QUALITIES))
    orders = ("$1${2}_$3", "$1${3}_$2")  # the rewriting of relative clauses moves them as one word
    return pl.concat([some.with_columns(pl.col("text").str.replace_all(_BOTH_QUALITIES, order)) for order in orders])


def _rewritten(frame: pl.DataFrame) -> pl.DataFrame:
    for pattern, replacement in _REWRITES:
        frame = frame.with_columns(pl.col("text").str.replace_all(pattern, replacement))
    return frame.with_columns(pl.col("text").str.replace_all("_", " ", literal=True))


def _active(frame: pl.DataFrame) -> pl.DataFrame:
    """Active readings of passive sentences, one for each possible end of the agent ("by the man with a hat")."""
    short = (pl.col("text").str.len_chars() <= _LONGEST) & ~pl.col("text").str.contains(_ENDS_INSIDE)
    passive = frame.filter(short & pl.col("text").str.contains(" by ", literal=True))
    parts = passive.with_columns(pl.col("text").str.extract_groups(_PASSIVE).struct.unnest()).drop_nulls("verb")
    parts = parts.filter(~pl.col("before").str.contains(r"\b(?:who|which|that)\b"))
    if parts.is_empty():
        return frame.clear()
    verbs = {verb: present(verb) for verb in parts["verb"].unique().to_list()}
    is_past = pl.col("aux").is_in(["was", "were", "got"])
    verb = pl.when(is_past).then("verb").otherwise(pl.col("verb").replace_strict(list(verbs), list(verbs.values())))
    parts = parts.with_columns(pl.col("mid", "how").str.strip_chars(), verb=verb)
    agents = [parts.with_columns(who=pl.col("y"), rest=pl.lit(""))]
    agents += [_split(parts, count) for count in range(3)]
    whole = pl.concat(agents)
    sides = (("x", "mid"), ("mid", "x"))
    return pl.concat(
        [
            whole.select(
                "row", text=pl.concat_str("before", pl.concat_str("who", "verb", *side, "rest", "how", separator=" "))
            )
            for side in sides
        ]
    )


def _split(parts: pl.DataFrame, count: int) -> pl.DataFrame:
    """The agent ends before its preposition number `count`; agents with fewer are left out."""
    pattern = rf"^(.+?(?: (?:{_PLACE}) .+?){{{count}}}) ((?:{_PLACE}) .+|(?:{_HERE})(?: .+)?)$"
    split = parts.with_columns(who=pl.col("y").str.extract(pattern), rest=pl.col("y").str.extract(pattern, 2))
    return split.drop_nulls("who")


def _finished(text: pl.Expr) -> pl.Expr:
    """The "is" of "is playing" and of "is in" dropped, a lone adverb moved to the end."""
    is_progressive = text.str.contains(_PROGRESSIVE)
    also = text.str.replace_all(r"\band ((?:\w{3,}ly )?\w+ing)\b", f"and ${{1}}{VERBAL}")
    text = pl.when(is_progressive).then(also).otherwise(text)
    text = text.str.replace_all(_PROGRESSIVE, f"$1$2 ${{3}}{VERBAL}").str.replace_all(
        rf"\b(?:is|are) ({_PLACE})\b", "$1"
    )
    is_simple = (text.str.count_matches(r"\b\w{3,}ly\b") == 1) & ~text.str.contains(_CLAUSES)
    moved = text.str.replace(r"^(.*?)\b(\w{3,}ly)\b(.*?)[.!]?$", "$1$3 $2")
    return pl.when(is_simple & (text.str.len_chars() <= _LONGEST)).then(moved).otherwise(text).alias("text")


def _stems(texts: pl.Series) -> pl.Series:
    """Per text its stems, without EMPTY_WORDS."""
    found = texts.str.extract_all(_TOKEN)
    words = found.explode(empty_as_null=True).drop_nulls().unique().to_list()
    if not words:
        return found
    known = pl.element().replace_strict(words, [spelling(word) for word in words], return_dtype=pl.String)
    return found.list.eval(known.drop_nulls())


def spelling(word: str) -> str | None:
    """The spelling of a lower-case word, number or unit; None for one of EMPTY_WORDS."""
    if word in EMPTY_WORDS:
        return None
    return NUMBER_WORDS.get(word) or UNITS.get(word) or _SUBJECTS.get(word) or stem(word)
