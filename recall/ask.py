"""Asking: a model answers a question from the lines that are recalled for it, in one call, and names those lines.

The lines reach it inert and numbered, and the answer leaves as inert text: nothing stored can instruct anybody (T38).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from inference.language import Language
from inference.providers import WITHOUT_KEY
from inference.request_batch import ModelAnswer
from prompts.rendering import render_question
from prompts.responses import QuestionAnswer
from slowwave.common.errors import BudgetReached, MissingKey, SlowwaveError, Terminal, TookTooLong, Transient
from slowwave.common.records import Prompt
from slowwave.common.settings import LanguageSettings
from slowwave.common.types import Passage, RecalledFact, Reply
from storage.paid_answers import StoredAnswers
from storage.rows import new_run_id
from storage.store import Store

from .context import ContextBlock, inert
from .loop import run

PROMPT = "answer_question"
"""Its answers are about the question, in the model's own words."""
WITHOUT_MODEL = "`slowwave recall` and `slowwave context` answer without a model."


def ask(
    question: str,
    find: Callable[[], ContextBlock],
    store: Store,
    llm: LanguageSettings,
    now: datetime,
    as_of: datetime | None = None,
) -> Reply:
    """The answer from the lines that `find` gives, which is called once it is certain that a model can answer.

    Without any line no model is called. The call is in the ledger, and limited like a run of its own. Raises
    `MissingKey` where no model is set, `BudgetReached` where the limits leave no room, `Transient` where the model does
    not answer now, `Terminal` where its answer cannot be used, and `TookTooLong` where the memory does not answer in
    time.
    """
    started = time.perf_counter()
    with _way_out():
        ledger = StoredAnswers(store, new_run_id("ask", now))
        language = Language(llm, ledger)
        if language.is_keyless("answer"):
            raise MissingKey(
                "No language model is set that could answer.",
                f"Name one (--llm, [ingest.llm] model, or `slowwave init`); a key alone chooses none. {WITHOUT_MODEL}",
            )
        block = find()
        if block.is_timed_out:
            raise TookTooLong("The memory did not answer in time.", "Ask again, or raise `recall_timeout_ms`.")
        reply = Reply(question)
        if block.lines:
            prompt = render_question(question, [f"{line.day}: {line.text}" for line in block.lines], now, as_of)
            reply = _reply(question, block, run(_ask_model(language, prompt)), language)
    return replace(reply, took_ms=(time.perf_counter() - started) * 1000)


async def _ask_model(language: Language, prompt: Prompt) -> ModelAnswer[QuestionAnswer]:
    async with language:
        return await language.ask(prompt, QuestionAnswer, "answer")


def _reply(question: str, block: ContextBlock, answer: ModelAnswer[QuestionAnswer], language: Language) -> Reply:
    if answer.skipped:
        raise BudgetReached(language.stopped_by, f"Raise the limit to ask a model. {WITHOUT_MODEL}")
    if answer.value is None:
        kind = Transient if answer.is_transient else Terminal
        raise kind(f"The model gave no answer that can be used ({answer.error}).", f"Ask again. {WITHOUT_MODEL}")
    reply, shown = answer.value, {n: line.source for n, line in enumerate(block.lines, 1)}
    paid = Reply(question, model=language.model("answer"), usage=answer.usage)
    if not reply.known:
        return paid
    strange = sorted({*reply.lines} - {*shown})
    notes = [f"The answer named lines that were not shown: {', '.join(map(str, strange))}."] if strange else []
    sources = [shown[n] for n in sorted({*reply.lines} & {*shown})]
    if not sources:
        return replace(paid, notes=(*notes, "It rests on nothing that was shown, so it was left out."))
    return replace(
        paid,
        text="\n".join(filter(None, map(inert, reply.answer.splitlines()))),
        is_known=True,
        facts=tuple(source for source in sources if isinstance(source, RecalledFact)),
        passages=tuple(source for source in sources if isinstance(source, Passage)),
        notes=tuple(notes),
    )


@contextmanager
def _way_out() -> Iterator[None]:
    """Errors of the model name rules as the way out where nothing is paid; no rule answers a question."""
    try:
        yield
    except SlowwaveError as error:
        if WITHOUT_KEY in error.remedy:
            raise type(error)(error.message, error.remedy.replace(WITHOUT_KEY, WITHOUT_MODEL)) from error
        raise
