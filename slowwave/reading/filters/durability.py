"""Texts worth keeping for a month (S0-27): refuses output, listings, traces, code, questions and small talk."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowwave.common.text import SYLLABIC, strip_code, strip_thinking

_LINE_KINDS = re.compile(
    r"""\s*(?:
      (?P<quotation>>\s?\S)
    | (?P<listing>[bcdlps-][rwxsStT-]{9}[.+@]?\s | total\s\d+\s*$ | [│├└┌┐┘─|\s]*[├└]──? | \d+\s+(?:files?
        |directories)\b.{0,40}$ | [\w./-]+/\s*$)
    | (?P<trace>Traceback\s\(most | File\s".{1,200}",\sline\s\d | at\s[\w.$<>]{1,120}\([\w.]{1,80}:\d+
        | \^+\s*$ | (?:[a-zA-Z_]\w{0,60}\.){0,6}\w{1,60}(?:Error|Exception|Warning):\s
        | (?:\[?\d{4}-\d\d-\d\d[T\s]\d\d:\d\d(?::\d\d)?\S{0,12}\]?\s).{0,40}(?:\b(?:DEBUG|INFO|WARN|WARNING
        |ERROR|FATAL|LOG|CRITICAL|TRACE)\b|\[\d+\])
        | (?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|TRACE)\b[:\s\]] | \(\d+\s(?:similar|more)\slines)
    | (?P<test>=+\s.{0,80}\s=+\s*$ | _{4,} | \d+\s(?:passed|failed|skipped
        |errors?)\b.{0,60}(?:\bin\s[\d.]+\s?m?s|$) | (?:PASSED|FAILED|ERROR|ok|FAIL|PASS)\s\S{1,120}::
        | \S{1,120}::\S{1,120}\s(?:PASSED|FAILED) | [.FEsx]{4,}\s*\[\s*\d+%\] | Ran\s\d+\stests?\sin
        | E\s{2,}\S | ---\s(?:PASS|FAIL): | [✓✗✔✖]\s)
    | (?P<code>[+-]{3}\s[ab/] | @@\s-\d | [$#%]\s\w[\w./-]{0,60}(?:\s|$) | (?:import
        |from)\s[\w.]{1,80}(?:\simport\s.{0,80})?;?\s*$ | (?:def|class|async\sdef)\s\w{1,80}[(:]
        | (?:const|let|var)\s\w{1,80}\s?= | (?:export|public|private|static)\s\w+.{0,120}[{;(]\s*$
        | function\s\w{0,80}\( | \#include\b | return\b.{0,120};\s*$ | [})\]]{1,4}[;,]?\s*$
        | [A-Z][A-Z0-9_]{2,60}=\S | ["'][\w.-]{1,60}["']\s?:\s | [\w.-]{1,60}\s?[:=]\s?["'\[{].{0,200}$
        | <\/?[a-zA-Z][^>]{0,200}>\s*$ | .{1,200}[{;]\s*$ | \[[\w.]{1,40}\]\s*$
        | (?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s[A-Z*"(`\w].{0,200}(?:FROM|INTO|TABLE|SET|WHERE|;)\b)
    )""",
    re.VERBOSE,
)
_KIND_NAMES = {
    "quotation": "quoted text of somebody else", "listing": "file listing", "trace": "debug trace or log",
    "test": "test output",
    "code": "code or configuration",
}  # fmt: skip
_MARKDOWN = re.compile(
    r"^\s*(?:#{1,6}\s+|(?:(?:[-*+•]|\d{1,3}[.)])\s+)?\[[ xX]\]\s+|[-*+•]\s+|\d{1,3}[.)]\s+)|\*\*|__(?=\w)|(?<=\w)__|`"
)
_OPEN_TASK = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+\[ \]\s")
_ITEM = re.compile(r"\s*(?:[-*+•|#>]|\d{1,3}[.)])\s")
_WRAP = 70
_RULE = re.compile(r"^[\s|:=*_-]{3,}$")
_LETTERS = re.compile(r"[^\W\d_]{2}")

_QUESTION_START = re.compile(
    r"\b(?:can|could|would|will|should|do|does|did|is|are|was|were|have|has|am|shall|may)\s+(?:you|i|we|it"
    r"|there|this|that|they|he|she|anyone|the)\b"
    r"|\b(?:what|how|why|when|where|who|which|whose|what's|how's|any (?:ideas?|tips|advice|chance"
    r"|suggestions?|plans?))\b",
    re.IGNORECASE,
)
_SMALL_TALK = re.compile(
    r"""(?:
      (?:hi|hey|hello|good\s(?:morning|evening|afternoon|night)|morning|bye|goodbye|see\s(?:you|ya)
          |talk\s(?:soon|later|to\syou)|take\scare|catch\syou|have\s(?:a|fun)|enjoy|welcome
          |you'?re\swelcome)\b.{0,60}
    | (?:thanks|thank\syou|thx|cheers|congrats|congratulations|kudos|good\sluck|gracias|muchas\sgracias
        |obrigad[oa]|muitos\s\w+|hola|buenos|qué\sbien|claro)\b.{0,90}
    | (?:glad|happy|great|good|nice|sorry|lovely|awesome)\s(?:to\s(?:hear|see|meet|help|have)|hear(?:ing)?
        |for\syou|that\syou|you)\b.{0,70}
    | (?:i'?m|i\sam|so|we'?re)?\s?(?:so\s|really\s|super\s|very\s|just\s)*(?:glad|happy|proud|excited
        |thrilled|sorry)\s(?:for|of|to\shear|to\ssee|that\syou|you|with\syou)\b.{0,70}
    | (?:that|it|this|these|those|they)(?:'s|\sis|'re|\sare|\swas|\sreally\sis|\ssounds?|\slooks?|\sseems?
        |\smust|\smust\sbe|\sfeels)\s(?:\w+\s){0,3}(?:great|good|awesome|amazing|cool|nice|wonderful
        |fantastic|beautiful|lovely|incredible
        |inspiring|fun|sweet|brilliant|interesting|gorgeous|stunning|perfect|fine|true|right|impressive
        |adorable|cute|rad|neat|a\spity|exciting|powerful|super|tough|rough|sad)\b.{0,40}
    | (?:sounds|looks|seems)\s(?:like\s|so\s|really\s)?(?:\w+\s){0,2}(?:great|good|awesome|amazing|cool|nice
        |wonderful|fantastic|fun|perfect|interesting|a\splan|lovely|a\sblast)\b.{0,40}
    | (?:wow|love|so|what\sa|how|such\sa)\s(?:cool|great|nice|awesome|amazing|beautiful|lovely|that|it|this
        |sweet|inspiring|wonderful)\b.{0,40}
    | (?:i\s)?(?:totally\s|completely\s|really\s|couldn't\s)?(?:agree|understand|see|hear\syou|get\sit|know
        |bet|guess\sso|think\sso|hope\sso|appreciate\s(?:it|that|you(?:r\s\w+)?)|can\simagine
        |feel\syou)\b[^,;]{0,24}
    | (?:you(?:'ve|'re|\sgot|\shave)?|keep|go|hang|way\sto|don't|stay|never)\s(?:got\s(?:this|guts|it)|it\sup
        |going|up|for\sit|in\sthere|go|worry|give\sup|doing\sgreat|rock|welcome|strong|awesome|amazing
        |the\sbest)\b.{0,40}
    | (?:let\sme\sknow|feel\sfree|let's\s(?:see|go|do\s(?:it|this))|no\s(?:worries|problem|thanks|rush)
        |not\sreally|not\smuch|got\sit|noted|understood|done|deal|same\shere|me\s(?:too|neither)|anytime
        |of\scourse|please\sdo|will\sdo|on\sit|one\smoment|right\saway
        |running\sthem|ready|go\sahead|fingers\scrossed|indeed|agreed|for\ssure|no\sway|my\spleasure)\b.{0,30}
    | always
    | (?:i'll|i\swill|i\scan|i\scould|let\sme|i'd\sbe\s(?:happy|glad))\s(?:also\s|just\s)?(?:tell|send|show
        |check|look|ask|let\syou|get\sback|be\sright|give\syou|help|do\sthat|keep\s(?:you|that|it)
        |write\s(?:it|that)|put\sthat|see\syou|take\sa\slook|know)\b.{0,80}
    )[\s.!?…]*""",
    re.IGNORECASE | re.VERBOSE,
)
_SELF = re.compile(r"I['’]m\s\w{4}")
MIN_WORDS = 3
LONG_QUESTION = 20
"""Words from which a question tells something beside what it asks."""


@dataclass(frozen=True, slots=True)
class Prose:
    """The words of people in a message; `refused` names the other content if there are none."""

    text: str
    refused: str = ""


def prose_of(text: str, role: str) -> Prose:
    """The sentences of a message as prose: code, output, listings, traces and quotations taken out (S0-27).

    Open tasks ("- [ ] order pellets") are left out, too, with the lines that belong to them: nothing of them holds yet.
    """
    if role == "tool":
        return Prose("", "tool output")
    if role == "system":
        return Prose("", "system message")
    bare = strip_code(strip_thinking(text))
    kept: list[str] = []
    noise: dict[str, int] = {}
    wrapped = has_tasks = is_wrapped_task = False
    task_indent: int | None = None
    for line in bare.split("\n"):
        wide = line.expandtabs(4)
        indent = len(wide) - len(wide.lstrip())
        if task_indent is not None and line.strip():
            if indent > task_indent or (is_wrapped_task and not _ITEM.match(line)):
                is_wrapped_task = _is_cut(line)
                continue
            task_indent = None
        is_wrapped_task = False
        if not line.strip() or _RULE.match(line):
            if kept and "|" in line and "-" in line:
                kept.pop()  # the head of a table has no content of its own
            wrapped = False
            continue
        if _OPEN_TASK.match(line):
            has_tasks, wrapped, task_indent, is_wrapped_task = True, False, indent, _is_cut(line)
            continue
        kind = _LINE_KINDS.match(line[:600])
        if kind and kind.lastgroup:
            noise[kind.lastgroup] = noise.get(kind.lastgroup, 0) + 1
        elif role == "document" and line.startswith("#"):
            wrapped = False
        else:
            marked = role == "document" or line[0] in "-*#+•0123456789 \t" or "**" in line or "`" in line
            plain = _plain(line) if marked else line
            if wrapped and not _ITEM.match(line):
                kept[-1] = f"{kept[-1]} {plain.strip()}"
            else:
                kept.append(plain)
            wrapped = _is_cut(line, 0 if role == "document" else _WRAP)
    spoken = sum(1 for line in kept if _LETTERS.search(line))
    if spoken and sum(noise.values()) <= 2 * spoken:
        return Prose("\n".join(kept))
    if noise:
        return Prose("", _KIND_NAMES[max(sorted(noise), key=noise.__getitem__)])
    return Prose("", "open tasks" if has_tasks else "code or configuration" if "```" in text else "no words")


def _is_cut(line: str, least: int = _WRAP) -> bool:
    """Whether a line of more than `least` characters goes on in the next one: it does not end as a sentence does."""
    return len(line) > least and not line.rstrip().endswith((".", "!", "?", ":", "|"))


def _plain(line: str) -> str:
    """A line without Markdown marks; the cells of a table row joined by commas."""
    if line.lstrip().startswith("|"):
        line = ", ".join(cell.strip() for cell in line.strip().strip("|").split("|") if cell.strip())
    return _MARKDOWN.sub("", line)


def without_question(sentence: str) -> str:
    """The statement before the question in a sentence; the whole sentence without a question, empty if it only asks."""
    if not sentence.rstrip("\"'”’) ").endswith("?"):
        return sentence
    found = _QUESTION_START.search(sentence)
    if found is None:
        return ""
    head = sentence[: found.start()].rstrip(" ,;:-–—")
    head = re.sub(
        r"[\s,;]+(?:and|but|so|or|because|if|also|then|like|I(?:'m| am) (?:wondering|curious)|I wonder)$",
        "",
        head,
        flags=re.IGNORECASE,
    )
    return head if len(head.split()) >= 2 * MIN_WORDS else ""


def refusal_of(statement: str) -> str:
    """Why a sentence is not worth keeping; empty if it is."""
    count = statement.count(" ") + 1 + len(SYLLABIC.findall(statement)) // 2  # without spaces two characters are a word
    if not _LETTERS.search(statement):
        return "no words"
    if statement.endswith("?") and count < LONG_QUESTION:
        return "question"
    if count < MIN_WORDS and not any(mark.isdigit() for mark in statement) and not _SELF.match(statement):
        return "too short to tell anything"
    if count <= 24 and _SMALL_TALK.fullmatch(statement):
        return "small talk"
    return ""
