"""Languages: the language of a text, by its script or its commonest words, and the small words that name nothing.

A rule and no library: a window or a question has many of these words, and a wrong guess costs a paragraph in a prompt
or the weight of a small word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from slowwave.common.text import word_set

from . import words_of
from .statement_words import FUNCTION_WORDS

ENGLISH = "English"
NAMES: Mapping[str, str] = {
    "en": ENGLISH, "es": "Spanish", "de": "German", "fr": "French", "pt": "Portuguese", "it": "Italian", "nl": "Dutch",
    "zh": "Chinese", "ja": "Japanese", "ko": "Korean", "ru": "Russian",
}  # fmt: skip
"""Languages by their codes, which settings have."""

_LATIN_SCRIPT = ("Spanish", "German", "French", "Portuguese", "Italian", "Dutch")
SMALL_WORDS: Mapping[str, frozenset[str]] = {
    ENGLISH: FUNCTION_WORDS,
    **{language: word_set(words_of(f"small_words_{language.lower()}")) for language in _LATIN_SCRIPT},
}
"""Words of languages in Latin script that stand in most sentences and are never looked for, also question words."""

DATES: Mapping[str, frozenset[str]] = {
    language: word_set(words_of(f"words_of_dates_{language.lower()}")) for language in _LATIN_SCRIPT[:4]
}
"""Words of dates; statements have them where messages have other words ("gestern")."""
DATES_IN_SIGNS = (
    r"[0-9０-９一二三四五六七八九十]{1,4}[年月日号號]|(?:星期|周|週)[一二三四五六日天]|[月火水木金土日]曜日?"
)
"""A pattern of dates in Chinese and Japanese."""

_ASKING = re.compile(
    "(?P<word>目的|的确|的士|了解|了不起|为了|除了|存在|现在|正在|在线|内在|实在|所在|在乎|在意|自在|着急|着手|着重|接着|着火|但是|可是"
    "|还是|于是|总是|凡是|是非|酒吧|网吧|吧台|哪吒|吗啡|ぶどう|どうぶつ|どうろ|いつも|いつか|ますます)"
    "|为什么|什么|怎么样|怎么|怎样|哪里|哪儿|哪天|哪个|哪些|哪|谁|多少|几个|几点|如何|是否|吗|呢|吧|的|了|着|是|在"
    "|何ですか|でしたか|ましたか|ですか|ますか|ません|ました|でした|ます|です|なぜ|どうして|どこ|どなた|だれ|誰|いつ|どんな|どの|どれ|どう|いくら|いくつ"
    "|무엇|누구|언제|어디|얼마|어떤|어떻게"
)
"""Question words and particles, and before them words that have one of their characters inside."""


def without_asking(text: str) -> str:
    """The text without the question words and the commonest particles of Chinese, Japanese and Korean."""
    return text if text.isascii() else _ASKING.sub(lambda found: found["word"] or " ", text)


SCRIPTS: Mapping[str, str] = {
    "Japanese": "\u3040-\u30ff",
    "Chinese": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "Korean": "\uac00-\ud7af\u1100-\u11ff\u3130-\u318f",
    "Russian": "\u0400-\u052f",
    "Greek": "\u0370-\u03ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f",
    "Hebrew": "\u0590-\u05ff",
    "Hindi": "\u0900-\u097f",
    "Thai": "\u0e00-\u0e7f",
}
"""Characters that show a language, or the commonest one of their script."""
_LANGUAGES = {
    word: tuple(name for name, words in SMALL_WORDS.items() if word in words)
    for word in frozenset().union(*SMALL_WORDS.values())
}
ELSEWHERE = frozenset(_LANGUAGES) - SMALL_WORDS[ENGLISH]
"""Small words of other languages that are none in English: plain text without any of them is English."""
_OF_SCRIPT = {language: re.compile(f"[{characters}]") for language, characters in SCRIPTS.items()}
_LATIN = re.compile(r"[a-zß-öø-ɏ]+(?:['’][a-zß-öø-ɏ]+)?")
_SCRIPT_SHARE = 0.35
"""Of all letters: names and quotations in another script do not make a text one of that language."""
_KANA_SHARE = 0.1
"""Of kana and Han together: Japanese text has many more, Chinese text none beside names."""
_READ = 10_000  # characters
_LEAST_HITS = 2
"""Fewer small words of a language, or no more than English ones, show nothing."""
_LEAST_SHARE = 0.15
"""Of all words: a text has many more small words of its language, one with foreign names in it fewer."""
_NAME = re.compile(
    r"(?<!\w)[A-ZÀ-ÖØ-Þ][\w'’-]*"
    r"(?:[ ](?:(?:de|del|da|do|das|dos|di|du|des|der|den|van|von|la|las|los|le|el|y|e)[ ]){0,2}[A-ZÀ-ÖØ-Þ][\w'’-]*)+"
)
"""A run of capitalised words, perhaps with particles of names between them: "Maria de la Cruz"."""


def language_of(texts: Iterable[str]) -> str:
    """The language in which most of these texts are written; `English` where nothing shows another one."""
    whole = "\n".join(texts)[:_READ]
    text = whole.lower()
    words = _words(text)
    if not text.isascii() and (language := _by_script(text, sum(map(len, words)))):
        return language
    if ELSEWHERE.isdisjoint(words):
        return ENGLISH
    small = _words(_NAME.sub(_without_particles, whole).lower())
    hits = Counter(language for word in small for language in _LANGUAGES.get(word, ()))
    best, count = next(iter(hits.most_common(1)), (ENGLISH, 0))
    is_enough = count >= max(_LEAST_HITS, _LEAST_SHARE * len(words))
    return best if count > hits[ENGLISH] and is_enough else ENGLISH


def _words(lower: str) -> list[str]:
    return [part for word in _LATIN.findall(lower) for part in word.replace("’", "'").split("'")]


def _without_particles(name: re.Match[str]) -> str:
    """A name without the small words in it; the first word of a sentence has a capital anyway and counts."""
    begins = not name.start() or name.string[: name.start()].rstrip(" ")[-1:] in "\n.!?"
    return " ".join(
        word for n, word in enumerate(name[0].split()) if word.lower() not in ELSEWHERE or (begins and not n)
    )


def _by_script(text: str, latin: int) -> str:
    found = {language: len(pattern.findall(text)) for language, pattern in _OF_SCRIPT.items()}
    kana, han = found["Japanese"], found["Chinese"]
    found["Japanese"], found["Chinese"] = (kana + han, 0) if kana > _KANA_SHARE * (kana + han) else (0, han)
    best = max(found, key=lambda language: found[language])
    return best if found[best] and found[best] >= _SCRIPT_SHARE * (found[best] + latin) else ""
