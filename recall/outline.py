"""The outline of conversations, for an order, a development or a summary: a line for each turn of a topic.

A model writes the lines while it reads (`slowwave.reading.extraction.outline`). Here those of the conversations that a
question finds anything in are put in order of how much they say about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from slowwave.common.types import Passage
from storage.warm import Tables

from .order import OUTLINE, word_overlaps
from .question import Question, Vector
from .search import IN_PERIOD, Ranked
from .search_results import MAY_BE_SHOWN, may_be_shown

MESSAGES_LOOKED_AT = 400
"""Best messages whose conversations have lines that may be about the question."""
LINES_COMPARED = 2000
"""Lines whose words are compared with the question: of more those of the conversations with the best messages."""
LINES_EMBEDDED = 512
"""Lines whose meaning is compared with the question: of more those that share most of its words, and then those of the
messages that match it best. A block has room for some sixty."""
_PLACE = ("id", "conversation_id")
_READ = (*MAY_BE_SHOWN, "message_id", "conversation_id", "speaker", "outline")

Embed = Callable[[Sequence[str]], Vector]


async def outline_lines(tables: Tables, question: Question, ranked: Ranked, embed: Embed) -> tuple[Passage, ...]:
    """The lines that may be shown, as passages of the role OUTLINE, those that say most about the question first.

    Score = cosine to the question + share of its words + IN_PERIOD for a line of the time that it names.
    """
    best = [*islice(ranked.scores, MESSAGES_LOOKED_AT)]
    if not best or question.about is not None or question.moment.known_as_of is not None:
        return ()  # nobody noted when a line was written: a message may have got another one since
    if "outline" not in await tables.columns("messages"):
        return ()
    talks = {row["id"]: row["conversation_id"] for row in await tables.rows("messages", "id", best, _PLACE)}
    places = {talk: n for n, talk in enumerate(dict.fromkeys(talks[name] for name in best if name in talks))}
    found = await tables.fetch("messages", "conversation_id", [*places], _READ, "outline IS NOT NULL")
    shown = (row for row in found.iter_rows(named=True) if may_be_shown(row, question))
    rows = sorted(shown, key=lambda row: (places[row["conversation_id"]], row["id"]))[:LINES_COMPARED]
    overlaps = word_overlaps(question.content, [row["outline"] for row in rows])
    likely = sorted(
        zip(rows, overlaps, strict=True),
        key=lambda pair: (-pair[1], -ranked.scores.get(pair[0]["id"], 0.0), pair[0]["id"]),
    )[:LINES_EMBEDDED]
    vectors = await asyncio.to_thread(embed, [row["outline"] for row, _ in likely])
    cosines = (vectors @ question.vector).round(6).tolist()
    lines = []
    for (row, overlap), cosine in zip(likely, cosines, strict=True):
        match = overlap + max(cosine, 0.0)
        is_of_period = question.period is not None and question.period.covers(row["occurred_at"])
        source = (row["conversation_id"], row["message_id"], OUTLINE, row["speaker"] or "")
        score = round(match + IN_PERIOD * is_of_period, 6)
        lines.append(Passage(*source, row["outline"], row["occurred_at"], score, match))
    return tuple(sorted(lines, key=lambda line: (-line.score, line.conversation_id, line.message_id)))
