"""Names of people in Han and Hangul, which have no space between family name and given name."""

from __future__ import annotations

import re

from slowwave.text import word_set

ADDRESS = re.compile(r"(?<=[^\x00-\x7f])[ \u30fb]?(?:さん|さま|くん|ちゃん|せんせい|君|様|氏|先生|女士|小姐|씨|님)$")
"""Forms of address behind a person's name in Japanese, Chinese and Korean."""
SIGNS = re.compile("[\u3005\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]{2,}")
"""A name in Han or Hangul."""
JAPANESE_FAMILIES = word_set(
    """佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 中村 加藤 吉田 山田 佐々木 山口 松本 井上 木村 斎藤 清水 山崎 阿部 池田
    橋本 山下 森田 石川 中島 前田 藤田 後藤 岡田 長谷川 村上 近藤 石井 坂本 遠藤 青木 藤井 西村 福田 太田 三浦
    藤原 岡本 松田 中川 中野 原田 田村 竹内 金子 和田 中山 石田 上田 原口 柴田 酒井 宮崎 横山 高木 安藤 宮本
    大野 内田 工藤 今井 高田 丸山 増田 武田 村田 上野 杉山 大塚 平野 千葉 松井 野口 菊地 木下 野村 新井 佐野
    渡部 久保 久保田 大久保 小笠原 五十嵐 佐久間 宇都宮 日下部 長谷部 小野寺 阿久津 波多野 大河原 大河内 小野田
    伊集院 二階堂 西園寺 海老原 宇佐美 宇田川 小山田 三田村 仲宗根 具志堅 竹之内 山之内"""
)
"""Common family names in Japan; not 小林, which in Chinese is also "little Lin"."""
_JAPANESE = re.compile("[\u3005\u3041-\u3096様]")
_PHRASE = re.compile(
    r"的|(?<=..)之(?![介助丞]|$)|(?:父母|父[亲親]|母[亲親]|丈夫|妻子|老公|老婆|[儿兒]子|女[儿兒]|朋友|同事|家人|([爸妈媽爷爺奶哥姐弟妹])\1)$"
)
"""Signs that make a phrase of a name: "the parents of", "his friend"; 之 is also a part of given names."""
_PART, _WHOLE = 2, 4
_JAPANESE_PART, _JAPANESE_WHOLE = 3, 6


def is_phrase(name: str) -> bool:
    """Whether it speaks of a person by another one: "林晓雯的父母" are the parents of 林晓雯."""
    return bool(_PHRASE.search(name))


def is_part(name: str, whole: str) -> bool:
    """Whether a name in signs, with or without a form of address, is the family name or the given name of another.

    It has two signs and the other at most four; in Japanese three and six. A longer name is a full name already.
    """
    part, signs = ADDRESS.sub("", name), ADDRESS.sub("", whole)
    is_japanese = bool(_JAPANESE.search(name + whole)) or not JAPANESE_FAMILIES.isdisjoint({signs[:2], signs[:3]})
    longest, longest_whole = (_JAPANESE_PART, _JAPANESE_WHOLE) if is_japanese else (_PART, _WHOLE)
    fits = len(part) <= longest and len(part) < len(signs) <= longest_whole
    return fits and (signs.startswith(part) or signs.endswith(part))
