"""Other languages than English: which one a text is in, and how its words, times and statements are found."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.rendering import render_extraction
from recall.order import word_overlaps
from slowwave.common.lexicon.languages import NAMES, language_of
from slowwave.common.records import Turn, Window
from slowwave.common.settings import ExtractSettings, Settings
from slowwave.common.text import plain_letters, segmented, sentences, signs_of
from slowwave.facts.revision.candidates import quotes
from slowwave.facts.revision.evaluation import grounding

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)
SAID = {
    "English": "I moved to Leipzig in March, and the flat is over a bookshop.",
    "Spanish": "Me mudé a Zaragoza en marzo, y el piso está encima de una librería.",
    "German": "Ich bin im März nach Leipzig gezogen, und die Wohnung ist über einer Buchhandlung.",
    "French": "J'ai déménagé à Rennes en mars, et l'appartement est au-dessus d'une librairie.",
    "Portuguese": "Eu me mudei para Curitiba em março, e o apartamento não tem elevador.",
    "Italian": "Mi sono trasferita a Torino a marzo, e la casa è sopra una libreria.",
    "Dutch": "Ik ben in maart naar Gent verhuisd, en het huis is boven een boekwinkel.",
    "Chinese": "我三月搬到了成都，房子在书店楼上。",
    "Japanese": "三月に福岡へ引っ越しました。部屋は本屋の上です。",
    "Korean": "저는 삼월에 부산으로 이사했어요.",
    "Russian": "Я переехала в Казань в марте.",
}


@pytest.mark.parametrize(("language", "text"), SAID.items())
def test_a_sentence_shows_its_language(language: str, text: str) -> None:
    assert language_of([text]) == language


@pytest.mark.parametrize(
    "text",
    ["", "42", "ok", "Die Hard", "José Ferreira", "Where does 田中 work?", "I met 林晓雯 and her cousin in town.",
     "Dinner with Maria de la Cruz tomorrow", "Flight to Rio de Janeiro, hotel Copa de Oro booked",
     "I met Oscar de la Hoya at La Scala", "Jan van der Berg met Ludwig van Beethoven fans",
     "Los Angeles, Las Vegas and El Paso booked", "make test && ./run",
     "She said: ¿qué tal? and we all laughed about it."],
)  # fmt: skip
def test_what_shows_no_other_language_is_english(text: str) -> None:
    assert language_of([text]) == "English"


# The prompt


def window(*texts: str) -> Window:
    return Window("c1", "global", tuple(Turn(n, "Ana", "user", text, NOON) for n, text in enumerate(texts)))


def asked(text: str, language: str = "") -> str:
    return render_extraction(window(text), ExtractSettings.model_validate({"language": language})).text


@pytest.mark.parametrize("language", ["", "en"])
def test_of_english_messages_the_prompt_says_nothing_of_languages(language: str) -> None:
    assert "messages are in" not in asked(SAID["English"], language)


@pytest.mark.parametrize(
    ("text", "language", "statements", "others"),
    [
        (SAID["German"], "", "German", "English"),
        (SAID["German"], "en", "English", "German"),
        (SAID["English"], "es", "Spanish", "English"),
        (SAID["German"], "es", "Spanish", "English and German"),
    ],
)
def test_statements_are_in_one_language_and_are_looked_for_in_others(
    text: str, language: str, statements: str, others: str
) -> None:
    found = asked(text, language)
    assert f"`is` are in {statements}," in found
    assert f"asks in {others} finds" in found
    assert found.index("</messages>") < found.index("messages are in")


def test_the_language_of_the_window_is_that_of_its_new_messages() -> None:
    turns = (
        Turn(0, "Ana", "user", SAID["German"] * 5, NOON, is_context=True),
        Turn(1, "Ana", "user", "So I moved.", NOON),
    )
    assert "messages are in" not in render_extraction(Window("c1", "global", turns)).text


def test_labels_in_spanish_ask_for_spanish_statements_unless_a_language_is_chosen() -> None:
    assert Settings().ingest.extract.language == ""
    labelled = {"labels": {"locale": "es"}}
    assert Settings.model_validate(labelled).ingest.extract.language == "es"
    chosen = {**labelled, "ingest": {"extract": {"language": "de"}}}
    assert Settings.model_validate(chosen).ingest.extract.language == "de"


def test_each_language_that_may_be_chosen_has_a_name() -> None:
    codes = get_args(ExtractSettings.model_fields["language"].annotation)
    assert {*codes} == {"", *NAMES}
    assert {*SAID} == {*NAMES.values()}


# Words


def test_a_sentence_without_spaces_is_taken_apart_into_pairs_and_characters() -> None:
    assert segmented("住在北京 now").split() == ["住", "在", "北", "京", "住在", "在北", "北京", "now"]
    assert segmented("しずく").split() == ["しず", "ずく"]
    assert segmented("서울에").split() == ["서울", "울에"]
    assert signs_of("Where is 北京?") == "北京"


@given(st.text(alphabet="abc é.,ß"))
def test_what_has_spaces_between_words_is_left_as_it_is(text: str) -> None:
    assert segmented(text) == text
    assert signs_of(text) == ""


def test_latin_letters_lose_their_accents_and_no_other_script_does() -> None:
    assert plain_letters("Müller, Straße, ação, Łódź") == "Muller, Strasse, acao, Lodz"
    assert plain_letters("がぎ й") == "がぎ й"


@pytest.mark.parametrize(
    ("question", "statement", "other"),
    [
        ("¿Dónde vive José en Múnich?", "Jose vive en Munich.", "¿Dónde está el gato en casa?"),
        ("林晓雯的茶馆叫什么名字？", "林晓雯开了茶馆听雨轩。", "这是什么？"),
        ("田中さんの犬の名前は何ですか？", "田中美咲の犬はむぎという。", "これは何ですか？"),
    ],
)
def test_content_words_of_a_question_count_and_question_words_do_not(question: str, statement: str, other: str) -> None:
    near, far = word_overlaps(question, [statement, other])
    assert near > far
    assert near >= 0.3


# Statements


def test_a_statement_without_spaces_is_grounded_in_the_words_of_its_message() -> None:
    messages = pl.DataFrame({"id": ["m1"], "content": ["上周五我从银行辞职了。我想开茶馆。"], "speaker": ["林晓雯"]})
    claims = pl.DataFrame(
        {"id": ["f1", "f2"], "message_id": ["m1", "m1"], "statement": ["林晓雯从银行辞职了。", "陈志强养了三只狗。"]}
    )
    own, foreign = grounding(claims, messages).to_list()
    assert own >= 0.6 > foreign
    rows = claims.head(1).with_columns(content=pl.lit(messages["content"][0]))
    assert quotes(rows).to_list() == ["上周五我从银行辞职了。"]


# Gates


@pytest.mark.parametrize(
    "whole",
    [
        "Am 3. Oktober ziehe ich nach Hamburg um.",
        "Die Hochzeit ist am 12. Juni in Kiel.",
        "La Sra. García vive en Sevilla.",
        "Ca. Dreißig Leute kamen, z.B. Otto.",
    ],
)
def test_the_point_of_an_ordinal_or_an_abbreviation_ends_no_sentence(whole: str) -> None:
    assert sentences(whole) == [whole]
    assert sentences(f"{whole} Danach ging Anna.") == [whole, "Danach ging Anna."]
    assert len(sentences("I am 50. Anna is 48.")) == len(sentences("I moved to CA. My sister lives in NY.")) == 2
