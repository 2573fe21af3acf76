"""Texts worth keeping for a month (S0-27): refuses output, listings, traces, code, small talk and requests.

Standing instructions ("never push to main", "always answer in English") are none of these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowwave.text import SYLLABIC, sentences, strip_code, strip_thinking, word_set

_LEAD = (
    r"(?:(?:ok|okay|wait|hm+|now|then|next|please|pls|just|also|so|and|but|yes|no|sure|great|perfect|cool|alright|first|finally"
    r"|again|right|well|good|hey|go\sahead\sand|you\scan|can\syou|could\syou|maybe)[\s,.!:–—-]+)*"
)
_VERBS = (
    r"(?:commit|push|pull|merge|rebase|squash|revert|undo|fix|run|rerun|re-run|execute|rename|refactor|implement|add|remove"
    r"|delete|drop|make|sort|format|try|open|close|create|move|copy|change|update|edit|extend|shorten|simplify|split|replace"
    r"|check|look|test|retry|debug|deploy|build|rebuild|compile|install|uninstall|restart|start|stop|continue|proceed|show|list"
    r"|print|explain|summari[sz]e|describe|translate|write|rewrite|draft|generate|produce|read|reread|review|compare|search|find"
    r"|grep|give|send|tell|put|set|reset|clean|clear|insert|append|apply|wire|hook|bump|tag|ship|release|publish|upload"
    r"|download|fetch|convert|wrap|inline|extract|document|comment|mention|include|exclude|skip|ignore|leave|keep|take|do|redo"
    r"|have|let|finish|go|bring|turn|switch|port|adapt|adjust|tweak|polish|tidy|double-check|verify|validate|confirm|paste|save)"
)
_WHAT = r"the|an?|it|this|that|these|those|them|my|our|your|me|us|all|both|again|another|everything|out|back|up|ahead"
_ORDER = re.compile(
    rf"{_LEAD}{_VERBS}(?:\s(?:{_WHAT}|off|down|over|on|in\sthe|at|through|with|to\s(?:the|a|main|me|us|production|staging)|one"
    r"|some|any|every|two|three|for|into|only|now|more|less|as|so|there|here|exactly|step)\b.*"
    r"|\s?(?:and|,|;|then)\s.*|\s\S+\s(?:to|with|for|in|from)\s.*|\s\S+)?[\s.!…]*",
    re.IGNORECASE,
)
_SURE_ORDER = re.compile(
    rf"{_LEAD}{_VERBS}(?:\s(?:{_WHAT}|(?:with|at|on|to|only)\sthe)\b.*|\sand\s.*)?[\s.!…]*", re.IGNORECASE
)
_REQUEST = re.compile(
    rf"{_LEAD}(?:can|could|would|will|may)\s(?:you|we|i)\b.*|{_LEAD}(?:i\swant\syou\sto|i['’]d\slike\syou\sto|i\sneed\syou\sto"
    r"|you\s(?:can|should|could|may)\s(?:now|also|just|then|go))\b.*"
    r"|(?:let['’]s|lets)\s(?:continue|start|stop|talk|move\son|wait|try|keep\sgoing|finish|call\sit|get\s(?:back|started|going)"
    r"|leave|pick|proceed|not|first|now|then|also|see|go|do|look|take|check|run|fix|add|commit|push|deploy|test)\b.*",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    rf"{_LEAD}use\s(?:(?:the\s)?(?:first|second|third|other|last|latter|former|same)(?:\s\w+){{0,3}}|that|this|it)[\s.!]*",
    re.IGNORECASE,
)
_BOX = re.compile(r"(?:[-*•]\s)?\[[ xX✓]?\]\s(?:@?[\w.-]+(?:\s[A-ZÀ-Þ]\w+)?:\s)?")
_SPANISH_ORDER = re.compile(
    r"(?:(?:ok|vale|bien|ahora|luego|también|por\sfavor|y|sí|no|entonces|espera|primero)[\s,.!:]+)*(?:(?:haz|hazlo|haga|pon|ponlo|dime|dame"
    r"|muéstrame|explícame|enséñame|ayúdame|vuelve\sa\s\w+(?:ar|er|ir))\b.*"
    r"|(?:ejecuta|corre|lanza|arregla|corrige|añade|agrega|quita|elimina|borra|cambia|renombra|mueve|crea|abre|cierra|muestra|explica"
    r"|escribe|reescribe|traduce|resume|revisa|comprueba|prueba|sube|despliega|instala|actualiza|genera|busca|compara|formatea)\s"
    r"(?:.*\s)?(?:otra\svez|de\snuevo|por\sfavor|tests?|pruebas?|commits?|push|merge|build|ramas?|script|función|archivos?|ficheros?"
    r"|código|botón|líneas?|errores|error|bug|repo|cambios)\b.*)",
    re.IGNORECASE,
)
_STANDING = re.compile(
    r"\b(?:never|always|don['’]t|do\snot|from\snow\son|prefer|remember|note\sthat|every\s(?:time|day|week|month|morning|release)"
    r"|whenever|each\stime|in\sfuture|in\sthe\sfuture|by\sdefault|instead|no\slonger|any\s?more|rather|not|siempre|nunca|jamás|cada|a\spartir\sde)\b",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"\b(?:is|are|was|were|has|have\sbeen|had|will|must|should|needs?|goes|means?|costs?|takes|works|because|since)\b",
    re.IGNORECASE,
)
_TAKEN = re.compile(r"\b(?:forget|scrap|never\s?mind|ditch)\b|\b(?:forget|drop|scrap)\sthe\b", re.IGNORECASE)
MAX_WORDS, MAX_ACKNOWLEDGING = 30, 8
_ACKNOWLEDGES = word_set(
    """ok okay k kk thanks thank thx ty yes yep yeah no nope sure great perfect cool nice good fine alright right
    done got lgtm awesome excellent amazing wonderful lovely super top agreed exactly correct noted understood
    roger cheers please hi hello hey bye goodbye morning welcome np gracias vale danke hola sí ja nein genau
    klar oh ah wow haha lol hm hmm"""
)
_AROUND = word_set(
    """it that this works worked looks sounds to me you very much so a lot again will do for is all evening night
    problem worries bien si alles gut the and well indeed yup job work"""
)


def request_of(sentence: str) -> str:
    """Why a person's sentence is an order or a request and no fact; empty if it may be a fact."""
    if len(sentence.split()) > MAX_WORDS or _STANDING.search(sentence):
        return ""
    if _REQUEST.fullmatch(sentence) or _CHOICE.fullmatch(sentence):
        return "request"
    if _TAKEN.search(sentence):
        return ""
    box = _BOX.match(sentence)
    sentence = sentence[box.end() :] if box else sentence
    is_informal = sentence[:1].islower() or box
    is_order = _SURE_ORDER.fullmatch(sentence) or (is_informal and _ORDER.fullmatch(sentence))
    is_order = is_order or _SPANISH_ORDER.fullmatch(sentence)
    return "order to an agent" if is_order and not _is_statement(sentence) else ""


def _is_statement(sentence: str) -> bool:
    """Whether the apparent order has a verb of its own: "Open points are listed below"."""
    first = re.split(r",\s|\s(?:that|which|who|so|because|when|if|until)\s", sentence, maxsplit=1)[0]
    return bool(_STATES.search(first))


def only_acknowledges(text: str) -> bool:
    """Whether a text has no content: "ok thanks", "looks good to me", "great, thank you!"."""
    words = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text.lower())
    if len(words) > MAX_ACKNOWLEDGING or any(map(str.isdigit, text)):
        return False
    return all(word in _ACKNOWLEDGES | _AROUND for word in words) and not _ACKNOWLEDGES.isdisjoint(words)


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

_GREETED = r"there|all|everyone|everybody|team|folks|guys|again|todos|a todos|zusammen|tout le monde|a tutti"
_BEGINS = "I|We|My|Our|You|Your|It|This|He|She|They|There|Yo|Mi|Nosotros|Ich|Wir|Je|Nous|Eu|Io"
# Before another capital letter a greeting may be half of a name: "Hoi An", "Salut Software".
_OPENERS = re.compile(
    r"(?:(?:hi|hey|hello|hola|hallo|moin|servus|salut|coucou|olá|oi|ciao|hoi)"
    rf"(?: (?:{_GREETED}))?(?:\s*[,.:;!…–—][\s,.:;!…–—]*|\s+(?=(?-i:[^\W\dA-ZÀ-Þ]|(?:{_BEGINS})\b)))"
    r"|(?:hi|hey|hello)\s+(?=[^\W\d_]+[,!])"
    r"|(?:good (?:morning|afternoon|evening|day)|morning|buenos días|buenas(?: tardes| noches)?"
    r"|guten (?:morgen|tag|abend)|bonjour|bonsoir|bom dia|boa (?:tarde|noite)|buongiorno|buonasera"
    r"|(?:muchas )?gracias|danke(?: schön)?|vielen dank|merci(?: beaucoup)?|(?:muito )?obrigad[oa]|grazie(?: mille)?"
    rf"|claro|vale|klar|genau|qué bien)(?: (?:{_GREETED}))?[,.:;!…–—]+\s*"
    r"|(?:你好|您好|大家好|早上好|こんにちは|こんばんは|おはようございます|おはよう|안녕하세요|привет|здравствуйте)[,.:;!，。！、\s]+"
    r"|(?:oh|ah|aha|wow|yo|yes|yeah|yep|yup|ok|okay|so(?! far)|and|but|also|anyway|btw|by the way"
    r"|actually|honestly|lol|haha+|ha|hmm+|ugh|aww*|omg|to be honest|tbh|in fact|fyi|for the record|please"
    r"|(?:please )?(?:remember|note) that|guess what|you know what|i mean)(?=[\s,.:;!…–—])[\s,.:;!…–—]*"
    r"|(?:thanks(?: so much| a lot| a bunch)?(?:,? [A-ZÀ-Þ]\w+)?|thank you(?: so much| very much)?|well|no"
    r"|nope|nah|sure|right|good|great|perfect|exactly|absolutely|definitely|totally|true|cool|nice|awesome"
    r"|of course|man|done|agreed|indeed|like|same"
    r"|about me|(?:next|first|second|third|last|another|one more|quick|short|small"
    r"|big)?(?: \w+)?(?: update| topic| point| thing| question| news| note)|next|update"
    r"|news)[,.:;!…–—]+\s*)+",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^\(?\d{1,2}[.)]\s+")
_ADDRESS = re.compile(r"^(?P<who>[A-Z][\w'’-]{1,20})(?:[,!.]|\s[-–—])\s+")
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
_ASKS_FOR = re.compile(
    r"(?:(?:please|now|then|just|also|so|and)\s){0,2}(?:show|run|tell|give|send|help|look\sat|check|list"
    r"|explain|print|open|paste|repeat|summari[sz]e|suggest|provide|generate|rewrite|write|create|draft"
    r"|find|walk\sme)\s"
    r"(?:me|us|it|this|that|the|them|a|an|my|some|at|out|up)\b.{0,90}",
    re.IGNORECASE,
)
_STANDING_WISH = re.compile(
    r"\b(?:never|always|don't|do not|from now on|prefer|remember|every time|whenever)\b", re.IGNORECASE
)
_FILE_FIRST = re.compile(
    r"[\w./-]+\.(?:py|js|ts|tsx|jsx|rs|go|java|c|h|cpp|rb|json|ya?ml|toml|sh|sql|html|css|md|txt|cfg|ini"
    r"|lock|log)\b"
)
_CONTENT = re.compile(r"[^\W\d_]{3,}")
_TELLING = re.compile(r"\d|\s[A-ZÀ-Þ][a-zà-þ]")
_EMPTY = word_set(
    """the and but for you your yours was were has have had are not did does done can could would will
    should may might must this that these those there here what when where who why how all any some too
    very just also still now then than let got get its it's him her his she they them their our out off
    from with into about over again really something anything everything nothing one two say said tell
    told know think thing things lot bit way much more most good great nice cool sure yes yeah because
    make makes made don't didn't can't won't well okay back come goes going"""
)
_SELF = re.compile(r"I['’]m\s\w{4}")
MIN_WORDS = 3


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
        indent = _indent(line)
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


def _indent(line: str) -> int:
    """The width of the blanks before a line; a tab reaches to the next multiple of four."""
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


def _is_cut(line: str, least: int = _WRAP) -> bool:
    """Whether a line of more than `least` characters goes on in the next one: it does not end as a sentence does."""
    return len(line) > least and not line.rstrip().endswith((".", "!", "?", ":", "|"))


def _plain(line: str) -> str:
    """A line without Markdown marks; the cells of a table row joined by commas."""
    if line.lstrip().startswith("|"):
        line = ", ".join(cell.strip() for cell in line.strip().strip("|").split("|") if cell.strip())
    return _MARKDOWN.sub("", line)


def trim(sentence: str, listeners: frozenset[str] = frozenset()) -> str:
    """A sentence without its opening interjections, list number and form of address."""
    bare = _NUMBERED.sub("", sentence.strip())
    for _ in range(3):
        opener = _OPENERS.match(bare)
        cut = bare[opener.end() :] if opener else bare
        address = _ADDRESS.match(cut)
        if address and address["who"].lower() in listeners:
            cut = cut[address.end() :]
        if cut == bare or not cut.strip():
            break
        bare = cut
    return bare.strip()


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


def _words_in(statement: str) -> int:
    """How many words it has; in scripts without spaces two characters count as a word."""
    return statement.count(" ") + 1 + len(SYLLABIC.findall(statement)) // 2


def says_little(statement: str) -> bool:
    """Whether a short sentence has almost no words of content."""
    if _words_in(statement) > 12 or _TELLING.search(statement):
        return False
    told = sum(1 for word in _CONTENT.findall(statement) if word.lower() not in _EMPTY)
    return told < 2 and not SYLLABIC.search(statement)


def only_small_talk(text: str) -> bool:
    """Whether all sentences of a text are thanks, greetings, promises and the like, without a number or a name."""
    parts = [trim(part) for part in sentences(text)]
    return bool(parts) and all(_SMALL_TALK.fullmatch(part) and not _TELLING.search(part) for part in parts)


def refusal_of(statement: str) -> str:
    """Why a trimmed sentence is not worth keeping; empty if it is."""
    count = _words_in(statement)
    if not _LETTERS.search(statement):
        return "no words"
    if statement.endswith("?"):
        return "question"
    if count < MIN_WORDS and not any(mark.isdigit() for mark in statement) and not _SELF.match(statement):
        return "too short to tell anything"
    if _FILE_FIRST.match(statement):
        return "detail of the code"
    if count <= 24 and _SMALL_TALK.fullmatch(statement):
        return "small talk"
    if count <= 18 and _ASKS_FOR.match(statement) and not _STANDING_WISH.search(statement):
        return "request"
    return ""
