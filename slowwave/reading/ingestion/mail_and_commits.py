"""Mail: an mbox or one message; what its writer wrote, without quotes and signature, in threads. And logs of Git."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email import message_from_string
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message as Mail
from email.utils import parseaddr
from html import unescape
from itertools import takewhile

from slowwave.common import text

from .formats import FROM_LINE, Note, decode_mixed
from .transcripts import Message, Origin, said, sections, time_of

_MAX_CHARS = 64_000_000
"""Of a longer message (of its attachments) the rest is dropped while it is read."""
_BOM = "\udcef\udcbb\udcbf"
_NO_MAIL = Note("unreadable", "neither sender nor date: not a message of mail")
_BY_MACHINE = Note("skipped", "a mail that a program sent, or a newsletter")
_UNWANTED = Note("skipped", "a mail in spam, trash or drafts")
_UNWANTED_LABELS = frozenset({"spam", "trash", "draft", "drafts"})
_NO_OWN_WORDS = Note("skipped", "a mail without words of its writer (quotes, files)")
_IDS = re.compile(r"<([^<>\s]+)>")
_REPLY = re.compile(r"\A(?:\s*(?:re|aw|sv|antw|fwd?|wg|rv|enc|tr)\s*(?:\[\d+\])?:)+\s*", re.IGNORECASE)
_ENDS = re.compile(
    r"--\s?\Z|-{2,}\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht|Mensaje original|Message d'origine"
    r"|Mensagem original)\s*-{2,}|Begin forwarded message:"
)
_HEADER_BLOCK = re.compile(
    r"^\*?(?:From|Von|De|Da):\*? [^\n]+\n\*?(?:Sent|Date|To|Gesendet|Datum|Enviado|An):\*? ", re.MULTILINE
)
# A line of underscores ends a mail only before headers, the notice of a list, or nothing.
_RULE = re.compile(
    r"^_{20,}[ \t]*(?:\n\s*)?(?:\Z|(?=\*?\w[\w ]{0,20}:\*? [^\n]+\n\*?\w[\w ]{0,20}:|\S+ mailing list\b))", re.MULTILINE
)
_SENT_FROM = re.compile(
    r"(?:Sent from my |Sent from Mail|Get Outlook for |Von meinem .+ gesendet|Enviado do meu |Enviado desde mi )"
)
_ATTRIBUTION = re.compile(
    r"^(?:On|Am|Le|El|Em|Il|Op|Den)\b[^\n]{5,200}(?:\n(?!>)[^\n]{1,100})?"
    r"(?:wrote|schrieb|écrit|escribió|escreveu|scritto|schreef|skrev)[^\n:]{0,100}:[ \t]*\n?(?=\s*(?:^>|\Z))",
    re.MULTILINE,
)
_FAMILY_FIRST = re.compile(
    r"(?P<family>(?:(?:von|van|de|der|den|del|di|da|la|le|zu|zur|ter)\s){0,3}[^\W\d_a-zà-þ][^\W\d_]*(?:[-'’][^\W\d_]+)*),\s*"
    r"(?P<given>(?!(?:Inc|Ltd|LLC|LLP|GmbH|AG|SE|Corp|Co|Jr|Sr|PhD|MD|MBA|Esq|II|III|IV)\b)[^\W\d_a-zà-þ][\w'’.-]*"
    r"(?:\s[^\W\d_a-zà-þ][\w'’.-]*){0,2})"
)
_SOFT_BREAK = re.compile(r"(?<=\S)(?<!\n--) \n(?![>\n]|-- ?\n)")
_TAG = re.compile(r"<(?P<closes>/?)(?P<name>[a-zA-Z!?][a-zA-Z0-9]*)(?P<rest>[^<>]*)>")
_SPACE = re.compile(r"\s+")
_SILENT = ("script", "style", "head", "title", "blockquote")
_BREAKING = ("br", "p", "div", "li", "tr", "h1", "h2", "h3", "h4")


def parse_mail(lines: Iterable[str], origin: Origin) -> Iterator[tuple[int, Message | Note]]:
    """(line, message or note) of an mbox or a single mail; `lines` are ASCII with other bytes as surrogates.

    A thread is a conversation: the first of the references, else the message it replies to, else the message itself.
    """
    roots: dict[str, str] = {}
    for number, raw in _mails(lines):
        try:
            yield from [(number, each) for each in _message(message_from_string(raw), roots, origin)]
        except RecursionError:
            yield number, Note("unreadable", "nested too deeply")


def _mails(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(first line, text) of each mail: in a box it begins after a blank line with a line `From address date`."""
    start, body, size, is_blank, is_box = 1, list[str](), 0, True, None
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(_BOM).removeprefix("\ufeff")
        if is_box is None and line.strip():
            is_box = bool(FROM_LINE.match(line))
        if is_box and is_blank and FROM_LINE.match(line):
            if "".join(body).strip():
                yield start, "".join(body)
            start, body, size = number, [], 0
        elif size < _MAX_CHARS:
            body.append(line[1:] if line.startswith(">From ") else line)
            size += len(line)
        is_blank = not line.strip()
    if "".join(body).strip():
        yield start, "".join(body).lstrip("\r\n")


def _message(mail: Mail, roots: dict[str, str], origin: Origin) -> Iterator[Message | Note]:
    sender, written = _header(mail, "From"), _header(mail, "Date")
    if not sender and not written:
        yield _NO_MAIL
        return
    own = next(iter(_IDS.findall(_header(mail, "Message-ID"))), "")
    before = _IDS.findall(_header(mail, "References")) or _IDS.findall(_header(mail, "In-Reply-To"))[:1]
    subject = _REPLY.sub("", " ".join(_header(mail, "Subject").split()))
    root = roots.get(before[0], before[0]) if before else own or f"{origin.conversation_id}: {subject}"
    if own:
        roots[own] = root
    if _UNWANTED_LABELS & {label.strip(' "').lower() for label in _header(mail, "X-Gmail-Labels").split(",")}:
        yield _UNWANTED
        return
    if _is_by_machine(mail):
        yield _BY_MACHINE
        return
    words = own_words(_body(mail))
    if not words:
        yield _NO_OWN_WORDS
        return
    name, address = _person(mail, sender)
    # Addresses are redacted, so a thread has a name without one.
    thread, message_id = f"mail-{text.digest(root, size=8)}", text.digest(own, size=8) if own else ""
    speaker = name or address or sender or "user"
    yield from said(Message(thread, message_id, "user", speaker, words, None, origin.scope, subject), written)


def _is_by_machine(mail: Mail) -> bool:
    """Answers of programs and newsletters; discussions in a list of mails are written by people."""
    is_list = bool(_header(mail, "List-Unsubscribe")) and not _header(mail, "List-Post")
    is_bulk = _header(mail, "Precedence").lower() in ("bulk", "junk") and not _header(mail, "List-Post")
    return is_list or is_bulk or _header(mail, "Auto-Submitted").lower() not in ("", "no")


def _header(mail: Mail, name: str) -> str:
    """The decoded value of a header; empty without one."""
    return _decoded(_raw(mail, name))


def _raw(mail: Mail, name: str) -> str:
    """The value of a header on one line; bytes outside ASCII, which it should not have, are read as text."""
    found = next((value for key, value in mail.raw_items() if key.lower() == name.lower()), "")
    value = decode_mixed(str(found).encode("utf-8", "surrogateescape"))
    return re.sub(r"\r?\n(?=[ \t])", "", value)


def _decoded(value: str) -> str:
    try:
        return str(make_header(decode_header(value))).strip()
    except (LookupError, ValueError, MessageError):
        return value.strip()


def _person(mail: Mail, sender: str) -> tuple[str, str]:
    """Name and address of the sender; a name is decoded by itself, because it may have a comma.

    "Müller, Jürgen" is Jürgen Müller.
    """
    name, address = parseaddr(_raw(mail, "From"))
    found = (_decoded(name), address) if "@" in address and "=?" not in address else parseaddr(sender)
    turned = _FAMILY_FIRST.fullmatch(found[0])
    return (f"{turned['given']} {turned['family']}", found[1]) if turned else found


def _body(mail: Mail) -> str:
    """The first part of plain text, else of HTML, that is not a file."""
    html = ""
    for part in mail.walk():
        if part.is_multipart() or part.get_content_disposition() == "attachment":
            continue
        kind = part.get_content_type()
        if kind == "text/plain" and (words := _part_text(part)).strip():
            is_flowed = str(part.get_param("format", "")).lower() == "flowed"
            return _SOFT_BREAK.sub(" ", words) if is_flowed else words
        if kind == "text/html" and not html:
            html = _part_text(part)
    return _html_text(html)


def _part_text(part: Mail) -> str:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return ""
    try:
        words = raw.decode(part.get_content_charset() or "utf-8")
    except (LookupError, ValueError):
        words = decode_mixed(raw)
    return words.replace("\r\n", "\n")


def _html_text(markup: str) -> str:
    """The text of HTML without scripts, styles and quotes.

    By hand, because the time of Python's parser grows with the square of damaged markup, and anybody can send a mail.
    """
    opened, *others = markup.split("<!--")
    markup = opened + "".join(other.partition("-->")[2] for other in others)
    words: list[str] = []
    silent: list[str] = []
    end = 0
    for tag in _TAG.finditer(markup):
        if not silent:
            words.append(_SPACE.sub(" ", markup[end : tag.start()]))
        end, name = tag.end(), tag["name"].lower()
        if tag["closes"]:
            if silent and silent[-1] == name:
                silent.pop()
            continue
        if name == "body":
            silent.clear()
        if name in _SILENT or "gmail_quote" in tag["rest"] or (silent and name == silent[-1]):
            silent.append(name)
        elif name in _BREAKING and not silent:
            words.append("\n")
    if not silent:
        words.append(_SPACE.sub(" ", markup[end:]))
    lines = unescape("".join(words)).split("\n")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.strip() for line in lines))


def own_words(body: str) -> str:
    """The text that its writer wrote: without quoted lines, what was forwarded, and the signature."""
    body = _ATTRIBUTION.sub("", body)
    cut = min((found.start() for found in (_HEADER_BLOCK.search(body), _RULE.search(body)) if found), default=None)
    kept: list[str] = []
    for line in body[:cut].split("\n"):
        if _ENDS.match(line):
            break
        if not line.startswith(">") and not _SENT_FROM.match(line):
            kept.append(line.rstrip())
    return text.unwrapped(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip())


# Logs of Git: the commit messages that decide something, as what their authors wrote.


_SHORT_HASH = 7
"""Characters of a hash by which Git names a commit, unless asked otherwise."""
_COMMIT = re.compile(r"commit ([0-9a-f]{7,64})\b")
_FIELD = re.compile(r"(Author|AuthorDate|Date|Merge):\s+(.*)")
_TRAILER = re.compile(r"(?:[A-Z][\w-]*-(?:by|Id|on|to)|Fixes|Closes|Refs|Bug|Cc|Link): \S", re.IGNORECASE)
_ZONE = re.compile(r" (?=[+-]\d{4}\Z)")
_DECIDES = re.compile(
    r"\b(?:decided|decides? (?:to|on|that|against)|decision (?:to|on|against)|agreed|instead of|rather than"
    r"|in favou?r of|because|given that|so that|no longer(?! than)|from now on"
    r"|replac\w+ .{1,80}(?:with|by)|(?:switch|migrat|mov|chang)\w* .{0,80}?(?:to|from)|adopt\w*|deprecat\w+"
    r"|drop\w* support|standardi[sz]e|we (?:use|keep|chose|want|will)|prefer\w*|by default|root cause|due to)\b"
    r"|, (?:as|since) (?!(?:well|before|usual|of|in|per|an?|above|below|described|documented|needed|requested|expected"
    r"|follows)\b)[a-z]",
    re.IGNORECASE,
)
_OF_PROGRAMS = re.compile(
    r"\A(?:(?:bump|update) \S+ (?:from|to) |(?:chore|build|fix)\(deps|merge (?:branch|pull|remote))", re.IGNORECASE
)
_NO_AUTHOR = Note("unreadable", "a commit without an author")
_BEFORE_ANY = Note("unreadable", "text before the first commit")
_DECIDES_NOTHING = Note("skipped", "a commit that decides nothing, of a program, or a merge")


def parse_git_log(lines: Iterable[str], origin: Origin) -> Iterator[tuple[int, Message | Note]]:
    """(line, message or note) of the output of `git log`, also with files or changes; those are passed over.

    The conversation has the name of the origin and the first commit: folders of two repositories may have one name.
    """
    if earliest := _first_commit(lines):
        origin = origin._replace(conversation_id=f"{origin.conversation_id}-{earliest}")
    for start, head, body in sections(lines, _COMMIT.match):
        found = _commit_message(head[1], body, origin) if head else [_BEFORE_ANY]
        yield from ((start, each) for each in found)


def _first_commit(lines: Iterable[str]) -> str:
    """The short hash of the earliest commit; empty where there is none."""
    commit = ""
    earliest: tuple[int, str] | None = None
    for line in lines:
        if opening := _COMMIT.match(line.removeprefix("\ufeff")):
            commit = opening[1][:_SHORT_HASH]
        elif commit and (field := _FIELD.match(line)) and field[1] in ("AuthorDate", "Date"):
            at = time_of(_ZONE.sub("", field[2]))
            earliest = min(earliest or (at, commit), (at, commit)) if at is not None else earliest
    return earliest[1] if earliest else commit


def _commit_message(commit: str, lines: list[str], origin: Origin) -> Iterator[Message | Note]:
    head = [*takewhile(str.strip, lines)]  # a blank line ends the fields, and one that is not indented the message
    rest = lines[len(head) :]
    fields = {field[1]: field[2] for line in reversed(head) if (field := _FIELD.match(line))}
    body = [line[4:] for line in takewhile(lambda line: line.startswith("    ") or not line.strip(), rest)]
    author = fields.get("Author", "").rpartition("<")[0].strip()
    if not author:
        yield _NO_AUTHOR
        return
    words = text.unwrapped("\n".join(line for line in body if not _TRAILER.match(line)).strip())
    if "Merge" in fields or author.endswith("[bot]") or _OF_PROGRAMS.match(words) or not _DECIDES.search(words):
        yield _DECIDES_NOTHING
        return
    found = Message(origin.conversation_id, commit, "user", author, words, None, origin.scope)
    yield from said(found, _ZONE.sub("", fields.get("AuthorDate") or fields.get("Date") or ""))
