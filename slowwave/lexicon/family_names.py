"""Common family names in China, Korea and Japan, in their signs."""

from __future__ import annotations

from slowwave.text import word_set

JAPANESE_FAMILIES = word_set(
    """佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 中村 加藤 吉田 山田 佐々木 山口 松本 井上 木村 斎藤 清水 山崎 阿部 池田
    橋本 山下 森田 石川 中島 前田 藤田 後藤 岡田 長谷川 村上 近藤 石井 坂本 遠藤 青木 藤井 西村 福田 太田 三浦
    藤原 岡本 松田 中川 中野 原田 田村 竹内 金子 和田 中山 石田 上田 原口 柴田 酒井 宮崎 横山 高木 安藤 宮本
    大野 内田 工藤 今井 高田 丸山 増田 武田 村田 上野 杉山 大塚 平野 千葉 松井 野口 菊地 木下 野村 新井 佐野
    渡部 久保 久保田 大久保 小笠原 五十嵐 佐久間 宇都宮 日下部 長谷部 小野寺 阿久津 波多野 大河原 大河内 小野田
    伊集院 二階堂 西園寺 海老原 宇佐美 宇田川 小山田 三田村 仲宗根 具志堅 竹之内 山之内"""
)
"""Common family names in Japan; not 小林, which in Chinese is also "little Lin"."""
FAMILIES = frozenset(
    "王李张刘陈杨黄赵周吴徐孙马胡朱郭何罗高林郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪"
    "范金石廖贾夏韦方白邹孟熊秦邱江尹薛段雷侯龙史陶黎贺顾毛郝龚邵万钱严武戴莫孔汤張劉陳楊黃趙吳孫馬羅鄭謝許韓馮鄧蕭蔣葉蘇"
    "呂盧鍾譚陸賈韋鄒龍賀顧龔萬錢嚴湯김이박최정강조윤장임한오서신권황안송류전홍"
)
"""Common family names of one sign in China and Korea: a name of two signs that begins so is often a whole one."""
