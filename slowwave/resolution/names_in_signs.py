"""Names of people in Han and Hangul, which have no space between family name and given name."""

from __future__ import annotations

import re

from slowwave.text import word_set

_HONOURED = "[\u3005\u3041-\u30ff\u3400-\u9fff]"
ADDRESS = re.compile(
    r"(?<=[^\x00-\x7f])[ \u30fb]?(?:さん|さま|くん|ちゃん|せんせい|先生|女士|小姐|씨|님)$"
    rf"|(?:(?<=[\u3041-\u30ff])|(?<={_HONOURED}{{3}}))[ \u30fb]?[君様氏]$"
)
"""Forms of address behind a person's name in Japanese, Chinese and Korean; 君 also ends given names: 王丽君."""
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
FAMILIES = frozenset(
    "王李张刘陈杨黄赵周吴徐孙马胡朱郭何罗高林郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪"
    "范金石廖贾夏韦方白邹孟熊秦邱江尹薛段雷侯龙史陶黎贺顾毛郝龚邵万钱严武戴莫孔汤張劉陳楊黃趙吳孫馬羅鄭謝許韓馮鄧蕭蔣葉蘇"
    "呂盧鍾譚陸賈韋鄒龍賀顧龔萬錢嚴湯김이박최정강조윤장임한오서신권황안송류전홍"
)
"""Common family names of one sign in China and Korea: a name of two signs that begins so is often a whole one."""
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
