"""Names of people in Han and Hangul, which have no space between family name and given name."""

from __future__ import annotations

import re

from slowwave.common.lexicon.family_names import FAMILIES, JAPANESE_FAMILIES

_HONOURED = "[\u3005\u3041-\u30ff\u3400-\u9fff]"
ADDRESS = re.compile(
    r"(?<=[^\x00-\x7f])[ \u30fb]?(?:さん|さま|くん|ちゃん|せんせい|先生|女士|小姐|씨|님)$"
    rf"|(?:(?<=[\u3041-\u30ff])|(?<={_HONOURED}{{3}}))[ \u30fb]?[君様氏]$"
)
"""Forms of address behind a person's name in Japanese, Chinese and Korean; 君 also ends given names: 王丽君."""
SIGNS = re.compile("[\u3005\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]{2,}")
"""A name in Han or Hangul."""
_JAPANESE = re.compile("[\u3005\u3041-\u3096様]")
_PHRASE = re.compile(
    r"的|(?<=..)之(?![介助丞]|$)|(?:父母|父[亲親]|母[亲親]|丈夫|妻子|老公|老婆|[儿兒]子|女[儿兒]|朋友|同事|家人|([爸妈媽爷爺奶哥姐弟妹])\1)$"
)
"""Signs that make a phrase of a name: "the parents of", "his friend"; 之 is also a part of given names."""
_PART, _WHOLE = 2, 4
_JAPANESE_PART, _JAPANESE_WHOLE = 3, 6
_LONG = 4
_KANA = re.compile("[\u3041-\u3096]+$")


def is_phrase(name: str) -> bool:
    """Whether it speaks of a person by another one: "林晓雯的父母" are the parents of 林晓雯."""
    return bool(_PHRASE.search(name))


def is_part(name: str, whole: str) -> bool:
    """Whether a name in signs is surely the family name or the given name of another.

    A family name of two signs is Japanese: a Japanese form of address shows it, or four signs of the whole name. A
    given name is the end of the whole and begins with no family name: 高明 is not surely short for 李高明.
    """
    if not may_be_part(name, whole):
        return False
    part, signs = ADDRESS.sub("", name), ADDRESS.sub("", whole)
    is_given = signs.endswith(part) and part[0] not in FAMILIES
    return is_given or len(signs) >= _LONG or bool(_KANA.search(name))


def may_be_part(name: str, whole: str) -> bool:
    """Whether a name in signs, with or without a form of address, stands at either end of another.

    It has two signs and the other at most four; in Japanese three and six. A longer name is a full name already.
    """
    part, signs = ADDRESS.sub("", name), ADDRESS.sub("", whole)
    if is_phrase(whole) or not (SIGNS.fullmatch(part) and SIGNS.fullmatch(signs)):
        return False
    is_japanese = bool(_JAPANESE.search(name + whole)) or not JAPANESE_FAMILIES.isdisjoint({signs[:2], signs[:3]})
    longest, longest_whole = (_JAPANESE_PART, _JAPANESE_WHOLE) if is_japanese else (_PART, _WHOLE)
    fits = len(part) <= longest and len(part) < len(signs) <= longest_whole
    return fits and (signs.startswith(part) or signs.endswith(part))
