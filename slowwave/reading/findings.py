"""What an assistant found or proposed, and whether the person who answers accepts it.

What an assistant says is no knowledge until somebody agrees: "Root cause: the index is missing." — "That was it."
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slowwave.records import Turn

MAX_FINDINGS = 3
_ACCEPTS = re.compile(
    r"^(?:(?:oh|ah|ok|okay|great|nice|perfect|cool|wow|hm+|haha|thanks|thank\syou)[\s,.!–—-]+)*"
    r"(?:(?:yes|yep|yeah|exactly|right|correct|agreed|confirmed|indeed|absolutely|definitely|true|deal|done|sí|exacto|genau)"
    r"(?=[\s,.!;:–—-]|$)(?!,?\s(?:but|and\syet|except))"
    r"|(?:good|great|nice|excellent)\s(?:catch|find|idea|call|point|thinking|plan|suggestion)"
    r"|(?:that|this|it)(?:['’]s|\swas|\sis)\s(?:it\b|the\s(?:reason|cause|problem|bug|one)|right|correct|exactly|true)"
    r"|(?:that|this|it)\s(?:makes\s(?:a\slot\sof\s|perfect\s)?sense|explains\s(?:it|a\slot|everything)|did\sit|works?|worked"
    r"|fixed\sit|helped|solved\sit|sounds\s(?:good|great|right|perfect))|makes\ssense"
    r"|(?:you['’]re|you\sare|you\swere)\s(?:right|correct)|i\sagree|sounds\s(?:good|great|right|perfect)"
    r"|(?:let['’]s|please|we['’]ll|i['’]ll|yes)\s(?:do|use|go\swith|take|try)\s(?:that|it|this)|do\s(?:that|it|so)\b|go\s(?:with|for)\s(?:that|it)"
    r"|go\sahead|(?:we|let['’]s)\sgo\swith|fixed[\s,.!]|solved[\s,.!]|works\snow|buena\sidea|de\sacuerdo|stimmt|einverstanden)",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"^(?:(?:hm+|oh|ok|well|sorry)[\s,.!]+)*(?:no\b|nope|not\b|wrong|i\s(?:don['’]t|do\snot|doubt)|that(?:['’]s|\sis)\snot|but\b)"
    r"|\b(?:not\s(?:it|true|right|correct|the\s(?:cause|reason|problem))|that(?:['’]s|\sis)\swrong|i\sdoubt|i\sdisagree"
    r"|instead|rather\snot|however|actually\sno|did(?:n['’]t|\snot)\s(?:help|work|fix))\b",
    re.IGNORECASE,
)
_FINDING = re.compile(
    r"\b(?:root\scause|caused\sby|(?:the|a|its|real|actual|underlying)\s(?:cause|culprit|reason|problem|issue|bug)\s(?:is|was|here|seems|turned)"
    r"|because|due\sto|turns?\sout|turned\sout|the\s(?:fix|solution|workaround)\s(?:is|was)|fails?\swhen|happens\swhen"
    r"|i\s(?:recommend|suggest|propose|would|['’]d)|i['’]d|(?:i|we|you)\sshould|(?:my|the)\s(?:recommendation|suggestion|proposal)"
    r"|(?:we|you)\scould|it(?:['’]s|\sis)\sbest\sto|best\sto\s|would\sfix|will\sfix)\b|^(?:root\scause|cause|reason|problem|fix"
    r"|solution|recommendation|suggestion|diagnosis|conclusion|decision):",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Sentences of an assistant that a person agreed to, and who that is; empty where nobody did."""

    sentences: tuple[str, ...] = ()
    by: str = ""


def accepts(answer: str) -> bool:
    """Whether an answer agrees with what was said before it."""
    bare = answer.strip()
    first = re.split(r"(?<=[.!?\n])\s", bare, maxsplit=1)[0]
    return bool(_ACCEPTS.match(bare)) and not _REFUSES.search(first) and not first.rstrip().endswith("?")


def accepted_part(turns: Sequence[Turn], turn: Turn, said: Sequence[str]) -> Accepted:
    """The findings and proposals among the sentences of an assistant's turn that the next person to speak accepts."""
    after = next((each for each in turns if each.index > turn.index and each.role in ("user", "assistant")), None)
    if after is None or after.role != "user" or not accepts(after.text):
        return Accepted()
    findings = [sentence for sentence in said if _FINDING.search(sentence) and not sentence.rstrip().endswith("?")]
    return Accepted(tuple(findings[:MAX_FINDINGS]), " ".join(after.speaker.split()) or after.role)
