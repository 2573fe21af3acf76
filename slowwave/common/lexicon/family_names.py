"""Common family names in China, Korea and Japan, in their signs."""

from __future__ import annotations

from slowwave.common.text import word_set

from . import words_of

JAPANESE_FAMILIES = word_set(words_of("japanese_family_names"))
"""Common family names in Japan; not 小林, which in Chinese is also "little Lin"."""
FAMILIES = frozenset(
    "王李张刘陈杨黄赵周吴徐孙马胡朱郭何罗高林郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪"
    "范金石廖贾夏韦方白邹孟熊秦邱江尹薛段雷侯龙史陶黎贺顾毛郝龚邵万钱严武戴莫孔汤張劉陳楊黃趙吳孫馬羅鄭謝許韓馮鄧蕭蔣葉蘇"
    "呂盧鍾譚陸賈韋鄒龍賀顧龔萬錢嚴湯김이박최정강조윤장임한오서신권황안송류전홍"
)
"""Common family names of one sign in China and Korea: a name of two signs that begins so is often a whole one."""
