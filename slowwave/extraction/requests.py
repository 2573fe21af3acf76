"""Orders to an agent and mere acknowledgements: requests of the moment, which are no facts.

Standing instructions ("never push to main", "always answer in English") are none of these.
"""

from __future__ import annotations

import re

from slowwave.text import word_set

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
