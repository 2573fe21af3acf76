"""What a sentence takes back, what is only an order, what is accepted, and which facts words for what is over mean."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patchwork import Memory, claim
from slowwave.extraction.decisions import accepted_part, accepts
from slowwave.extraction.events import dated_events, moved_event
from slowwave.extraction.reversals import find_reversals
from talk import START, Line, learn, rows, said, written

from slowwave.deduplication.observations import screen
from slowwave.filters.durability import only_acknowledges, request_of
from slowwave.records import Turn

TAKEN_BACK = [
    ("We moved the shop from Fly.io to Hetzner.", "Fly.io"),
    ("We switched from Postgres 15 to Postgres 16.", "Postgres 15"),
    ("We upgraded Node from 18 to 22.", "Node 18"),
    ("The deadline moved from 19 October to 9 November.", "19 October"),
    ("The rehearsal starts at 19:30 now instead of 18:00.", "18:00"),
    ("The budget was raised from 12,000 to 15,000 euros.", "12,000"),
    ("The shop opens at 10 instead of 9 from now on.", "9"),
    ("I prefer tabs now, not spaces.", "spaces"),
    ("From now on I prefer long answers over short ones in mails.", "short ones in mails"),
    ("The logs go to Loki rather than Datadog.", "Datadog"),
    ("We write our notes in AsciiDoc now, no longer in Markdown.", "Markdown"),
    ("The newsletter no longer goes out with Mailchimp.", "Mailchimp"),
    ("The team doesn't meet in Room 4 any more.", "Room 4"),
    ("We replaced Blume with Kantine Ost.", "Blume"),
    ("Forget Redis, we keep the sessions in Postgres.", "Redis"),
    ("The trip to Lisbon is off.", "trip to Lisbon"),
    ("The party is cancelled.", "party"),
    ("Our dinner with Mia on Friday is off, she is ill.", "dinner with Mia"),
    ("The sale of the boat fell through.", "sale of the boat"),
    ("The beta launch is dead.", "beta launch"),
    ("I changed my mind: no second shop in Gouda.", "second shop in Gouda"),
    ("I changed my mind about Globex.", "Globex"),
    ("Ya no uso el correo, ahora uso Signal.", "correo"),
    ("I gave up on Italian.", "Italian"),
    ("Our branch in Frankfurt closed down.", "branch in Frankfurt"),
    ("The bike shop has closed for good, sadly.", "bike shop"),
    ("The swimming pool in Kiel shut its doors forever.", "swimming pool in Kiel"),
]
NOTHING = [
    "If we used Mollie instead of Stripe, we would save a lot.",
    "Should we use Linear instead of Jira?",
    "We might move from Jira to Linear next year.",
    "We considered Rust instead of Go but stayed.",
    "Ben wanted to use Memcached instead of Redis.",
    "Yesterday I had tea instead of coffee.",
    "The concert was rock, not jazz.",
    "I drink tea in the evening instead of coffee sometimes.",
    "Don't forget the anniversary.",
    "I haven't changed my mind about the cake.",
    "Not sure about that.",
    "It works, not only for me.",
    "Talk to Lea, not to Anna.",
    "Forget it.",
    "The oven is off.",
    "The heating is off again.",
    "The wedding cake is off.",
    "My laptop is dead.",
    "The camera is no longer on.",
    "The printer was dropped.",
    "The project is off to a good start.",
    "Mia fell through the ice.",
    "Never mind that.",
    "I live in Porto.",
    "We drove from Oslo to Bergen.",
    "The shop closed for good.",
    "Our branch in Frankfurt closed at six.",
    "The bike shop is closed on Mondays.",
    "The bike shop closed down for repairs.",
    "The bike shop never closed down.",
    "The bike shop in Kiel closed down over Christmas.",
    "The bike shop in Kiel was closed down until further notice.",
    "The bike shop next to ours in Kiel closed down.",
    "The bike shop opposite the station closed for good.",
    "The other bike shop closed down.",
    "The bike shop in Kiel hasn't closed down.",
    "Ben wanted to have the branch in Kiel closed down.",
    "If the bike shop closed down, I would be sad.",
]
ORDERS = [
    "commit and push.", "can you look.", "fix the failing test and run it again.",
    "now rename the function to load_orders.", "try again with the other file.",
    "wait, undo that last change please.", "let's continue tomorrow.", "make the button blue.",
    "Add a test for the empty basket.", "sort the list by price and keep the header.", "use the second variant",
    "go ahead and merge it.", "could you have another look at the layout.", "delete that branch",
    "stop, that's the wrong file", "[x] Bo: rename repo", "- [ ] Fix the header", "[ ] Lea Maes: add tests for login",
    "Haz commit y push.", "Ejecuta los tests otra vez.", "Vale, ahora arregla el botón.", "Dime qué falta.",
    "Renombra la función por favor.",
]  # fmt: skip
FACTS = [
    "Never push to main directly.", "Always answer me in English.", "Use tabs in Makefiles.",
    "Don't deploy on Fridays.", "Open points are in the wiki.", "Push notifications are switched off for guests.",
    "Commit messages are in English.", "Test data lives in the folder fixtures.",
    "Build times went down to four minutes.", "Call me Ilse.", "Prefer spaces from now on.",
    "Run 3 was the best one, with 81 points.", "I want to learn Portuguese.",
    "Forget Redis, we keep the sessions in Postgres.", "We decided to keep Svelte.",
    "[x] We decided to use Loki.", "Haz siempre commits pequeños.", "Nunca hagas push los viernes.", "Corre maratones.",
    "Ejecuta los tests cada noche.", "Prueba de embarazo positiva.", "Ana escribe código en Rust.",
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "old"), TAKEN_BACK, ids=[old for _, old in TAKEN_BACK])
def test_a_sentence_names_what_it_takes_back(sentence: str, old: str) -> None:
    assert [reversal.old for reversal in find_reversals(sentence)] == [old]


@pytest.mark.parametrize("sentence", NOTHING)
def test_what_is_supposed_asked_weighed_or_done_once_takes_nothing_back(sentence: str) -> None:
    assert find_reversals(sentence) == []


def test_a_fragment_after_a_change_of_mind_belongs_to_it() -> None:
    (found,) = find_reversals("No rewrite in Rust.", "We changed our mind, the parser stays in Go.")
    assert (found.old, found.action) == ("rewrite in Rust", "retract")
    assert find_reversals("No rewrite in Rust.", "We talked about the parser.") == []


@given(st.text(max_size=200))
def test_any_text_can_be_looked_through(text: str) -> None:
    assert all(reversal.old for reversal in find_reversals(text, text))
    request_of(text)
    accepts(text)
    only_acknowledges(text)
    moved_event(text)
    dated_events(text)


@pytest.mark.parametrize(
    "piece",
    ["from a to ", "not ", "moved from ", "is off, ", "and ", "run the ", "yes, ", "no longer ", "a was moved "],
)
def test_long_texts_cost_little(piece: str) -> None:
    begun = time.perf_counter()
    find_reversals(piece * 3000, piece * 3000)
    request_of(piece * 3000)
    accepts(piece * 3000)
    moved_event(piece * 3000)
    dated_events(piece * 3000)
    assert time.perf_counter() - begun < 1


@pytest.mark.parametrize("sentence", ORDERS)
def test_an_order_to_an_agent_is_no_fact(sentence: str) -> None:
    assert request_of(sentence)


@pytest.mark.parametrize("sentence", FACTS)
def test_a_standing_instruction_or_a_statement_is_no_order(sentence: str) -> None:
    assert request_of(sentence) == ""


@pytest.mark.parametrize("text", ["ok thanks", "Looks good to me!", "great, thank you!", "Ok.", "danke", "👍 thanks"])
def test_what_only_acknowledges_is_no_observation(text: str) -> None:
    found = screen([text], set())
    assert found["outcome"].to_list() == ["refused"]
    assert "thanks, greets or agrees" in found["reason"][0]


@pytest.mark.parametrize(
    "text", ["Likes tea", "Good with children", "Works a lot", "Thanks Ana in every letter", "Ok-Go 3"]
)
def test_short_observations_are_taken(text: str) -> None:
    assert screen([text], set())["outcome"].to_list() == ["new"]


@pytest.mark.parametrize(
    "answer",
    ["good catch, do that.", "Yes, that was it.", "That makes sense, thanks!", "Agreed, move the job to 4:00.",
     "Sounds good, go with that.", "exactly, that's the reason.", "ok, makes sense", "You're right, let's do that."],
)  # fmt: skip
def test_an_answer_accepts(answer: str) -> None:
    assert accepts(answer)


@pytest.mark.parametrize(
    "answer",
    ["No, that's not it.", "How did you find that?", "I'll think about it.", "Yes, but the index is there.", "thanks",
     "That's not the cause.", "Hm, I doubt that.", "Yes?", "Right, but not now."],
)  # fmt: skip
def test_an_answer_does_not_accept(answer: str) -> None:
    assert not accepts(answer)


def test_only_the_findings_of_an_accepted_answer_are_kept() -> None:
    def turn(index: int, speaker: str, text: str) -> Turn:
        role = "assistant" if speaker == "assistant" else "user"
        return Turn(index, speaker, role, text, datetime(2026, 4, 9, tzinfo=UTC))

    said = ["I looked at the logs.", "The root cause is a retry.", "Shall I fix it?"]
    turns = [turn(0, "Ilse", "Why?"), turn(1, "assistant", " ".join(said)), turn(2, "Ilse Brandt", "good catch")]
    found = accepted_part(turns, turns[1], said)
    assert (found.sentences, found.by) == (("The root cause is a retry.",), "Ilse Brandt")
    assert accepted_part(turns[:2], turns[1], said).sentences == ()


# Which facts words mean


def said_by_anna(words: str, at: float, **more: Any) -> dict[str, Any]:
    return claim(f'Anna: "{words}"', relation="said", at=at, said=words, **more)


def taken_back(old: str, words: str, **more: Any) -> dict[str, Any]:
    return said_by_anna(words, 9, resolves=[{"object": old, "action": more.pop("action", "supersede")}], **more)


@pytest.mark.parametrize(
    ("known", "old", "words"),
    [
        ("The shop's database is MariaDB.", "MariaDB", "We use SQLite instead of MariaDB."),
        ("The deadline is 19 October.", "19 October", "The deadline moved from 19 October to 9 November."),
        ("We decided to use Redis for the sessions.", "Redis", "Forget Redis, we keep the sessions in Postgres."),
        ("Our caterer is Blume.", "Blume", "We replaced Blume with Kantine Ost."),
        ("Line width is 80 characters.", "80", "Line width is 100 characters now, not 80."),
        ("We have a branch in Frankfurt.", "branch in Frankfurt", "Our branch in Frankfurt closed down."),
    ],
)
def test_words_close_what_tells_of_the_same_matter(known: str, old: str, words: str) -> None:
    memory = Memory()
    memory.tell(said_by_anna(known, 1), said_by_anna("The van is green.", 2))
    memory.tell(taken_back(old, words))
    assert memory.live() == ['Anna: "The van is green."', f'Anna: "{words}"']


@pytest.mark.parametrize(
    ("known", "old", "words"),
    [
        (
            "The deadline of the shop is 19 October.",
            "19 October",
            "The tax deadline moved from 19 October to 2 November.",
        ),
        ("MariaDB is fast.", "MariaDB", "We use SQLite instead of MariaDB."),
        ("We used MariaDB in 2019.", "MariaDB", "We use SQLite instead of MariaDB."),
        ("We moved from MariaDB to MySQL.", "MariaDB", "We use SQLite instead of MariaDB."),
        ("The blog runs on MariaDB and the shop runs on MySQL.", "MariaDB", "The blog uses SQLite instead of MariaDB."),
        ("The port is 5432.", "54", "The port is 55 now instead of 54."),
    ],
)
def test_words_leave_what_tells_of_another_matter_or_of_more(known: str, old: str, words: str) -> None:
    memory = Memory()
    memory.tell(said_by_anna(known, 1))
    memory.tell(taken_back(old, words))
    assert f'Anna: "{known}"' in memory.live()


def test_of_several_matters_that_words_may_mean_none_is_closed() -> None:
    memory = Memory()
    memory.tell(said_by_anna("The blog runs on MariaDB.", 1), said_by_anna("The shop runs on MariaDB.", 2))
    memory.tell(taken_back("MariaDB", "We use SQLite instead of MariaDB."))
    assert len(memory.live()) == 3


def test_nobody_else_ends_a_habit_that_a_person_told_of_himself() -> None:
    memory = Memory()
    memory.tell(claim("Anna uses vim in the office.", obj="vim", at=1))
    words = "I use emacs in the office, not vim."
    other = claim(f'Ben: "{words}"', subject="Ben", relation="said", at=9, said=words, resolves=[{"object": "vim"}])
    memory.tell({**other, "speaker": "Ben"})
    assert "Anna uses vim in the office." in memory.live()


@pytest.mark.parametrize(
    ("words", "is_left"),
    [
        ("Forget the weekly digest.", False),
        ("Ok, scrap the weekly digest.", False),
        ("The weekly digest is off.", True),
        ("Ben replaced the weekly digest with a page.", True),
    ],
)
def test_a_wish_is_withdrawn_by_who_says_so_and_not_by_what_happens(words: str, is_left: bool) -> None:
    memory = Memory()
    memory.tell(claim("Anna wants a weekly digest.", relation="wants", obj="weekly digest", at=1))
    memory.tell(taken_back("weekly digest", words, action="retract"))
    assert ("Anna wants a weekly digest." in memory.live()) == is_left


def test_words_close_nothing_in_another_scope() -> None:
    memory = Memory()
    memory.tell(said_by_anna("Our caterer is Blume.", 1, to="other"))
    memory.tell(taken_back("Blume", "We replaced Blume with Kantine Ost."))
    assert len(memory.live()) == 2


def test_a_date_that_was_moved_holds_no_longer_although_the_new_one_is_to_come(tmp_path: Path) -> None:
    turns = [("Ana", "The deadline is 12 June."), ("Ana", "The deadline moved from 12 June to 30 June.")]
    learn(written(tmp_path / "talk.jsonl", said(turns)), tmp_path / "memory")
    old = rows(tmp_path / "memory", "facts", "object_text = '12 June'").row(0, named=True)
    assert (old["status"], old["valid_to"].date()) == ("superseded", START.date())


MOVED_DATES = {
    "Ana": ("Our wedding is on 5 June 2026.", "Correction: the wedding is on 12 June, not 5 June."),
    "Bela": ("Our wedding is on 5 June.", "Sorry, the wedding is on 12 June."),
    "Cleo": ("The exam is on 5 June.", "The exam has been postponed to 12 June."),
    "Dora": ("My sister's wedding is on 5 June.", "My sister's wedding is now on 12 June."),
    "Enzo": ("The Heron launch is on 5 June.", "The Heron launch was moved to 12 June."),
    "Fara": ("My birthday is on 5 June.", "Correction: my birthday is on 12 June, not 5 June."),
    "Abel": ("The team dinner is at Luigi's on 5 June.", "The team dinner was moved to 12 June."),
    "Bice": ("The fair in Ghent is on 5 June.", "The fair was moved to 12 June."),
    "Carl": ("The dinner with Mia is on 5 June at the Blue Door.", "The dinner with Mia got pushed to 12 June."),
    "Dana": ("On 5 June the book fair is in the old hall.", "The book fair has been postponed until 12 June."),
    "Egon": ("I have an interview at Brightwell on 5 June.", "They rebooked my interview for 12 June."),
    "Fons": ("There is a street party in our road on 5 June.", "Sorry, the street party is on 12 June."),
    "Gerd": ("My flight to Rome is on 5 June.", "My flight to Rome was changed to 12 June."),
    "Hilda": ("The board meeting takes place in room 4 on 5 June.", "We moved the board meeting to 12 June."),
    "Inge": ("The choir's concert is in the church on 5 June.", "The choir's concert is now on 12 June."),
    "Jule": ("Mia is getting married on 5 June.", "The wedding was moved to 12 June."),
    "Karin": ("We're getting married on 5 June.", "Our wedding was postponed to 12 June."),
    "Lars": ("My sister is getting married in Faro on 5 June.", "My sister's wedding was moved to 12 June."),
    "Mads": ("We're moving house on 5 June.", "The move was pushed back to 12 June."),
    "Nele": ("I'm sitting my driving exam on 5 June.", "My driving exam was rescheduled to 12 June."),
    "Olof": ("I'm flying to Rome on 5 June.", "My flight was rebooked for 12 June."),
    "Pelle": (
        "My mother is being operated on in Kiel on 5 June.",
        "My mother's operation was brought forward to 4 June.",
    ),
    "Runa": ("I'm being interviewed at Brightwell on 5 June.", "The interview at Brightwell was moved to 12 June."),
    "Sven": ("I graduate on 5 June.", "My graduation was put off until 12 June."),
    "Tove": ("The new shop opens on 5 June.", "The opening of the shop slipped to 12 June."),
    "Vera": ("The choir rehearsal is in the church on 26 March.", "The choir rehearsal was moved to Friday."),
    "Wim": ("Our picnic is in the park on 5 June.", "Our picnic was moved from 5 June to 12 June."),
    "Zita": ("The trial is in court 3, on 5 June.", "The trial was adjourned to 12 June because of a strike."),
    "Yan": ("Our picnic is in the park on 5 June.", "Our picnic on 5 June was moved to 12 June."),
    "Ulla": ("We're celebrating Leo's birthday on 5 June.", "The party was moved to 12 June."),
}
OTHER_DATES = {
    "Gero": ("My exam is on 5 June.", "Correction: the wedding is on 12 June, not 5 June."),
    "Hana": ("The meeting is on 5 March.", "The meeting is on 12 June."),
    "Igor": ("The wedding is in Faro.", "Sorry, the wedding is on 12 June."),
    "Jana": ("Our game is on 5 June.", "Our game is on 12 June."),
    "Kurt": ("The Heron demo is on 5 June.", "The Heron demo is on 12 June."),
    "Anke": ("The team dinner is at Luigi's on 5 June.", "The board dinner was moved to 12 June."),
    "Bodo": ("The team dinner is at Luigi's on 5 June.", "The dinner was moved to 12 June."),
    "Cora": ("The fair in Ghent is on 5 June.", "The fair in Bruges was moved to 12 June."),
    "Dirk": ("The dinner with Mia is at Luigi's on 5 June.", "The dinner with Tom was moved to 12 June."),
    "Elsa": ("The fair in Ghent is on 5 June.", "The fair might be moved to 12 June."),
    "Falk": ("The fair in Ghent is on 5 June.", "The fair was not moved to 12 June."),
    "Gitta": ("The fair in Ghent is on 5 June.", "The fair in Ghent was moved to the new hall."),
    "Hugo": ("The fair in Ghent is great.", "The fair was moved to 12 June."),
    "Ines": ("The fair in Ghent was on 5 June.", "The fair was moved to 12 June."),
    "Jost": ("The fair in Ghent is on 5 June and we need a van.", "The fair was moved to 12 June."),
    "Kai Berg": ("I'm buying shoes for the wedding on 5 June.", "The wedding was moved to 12 June."),
    "Lene": ("I'm getting married on 5 June.", "Tom's wedding was moved to 12 June."),
    "Moritz": ("Tom is getting married on 5 June.", "Our wedding was moved to 12 June."),
    "Nora Vik": ("My mother is being operated on in Kiel on 5 June.", "My operation was moved to 12 June."),
    "Oda Lund": ("We're moving the piano on 5 June.", "The move was pushed back to 12 June."),
    "Piet": ("The wedding is at the lake in June.", "The wedding was moved to 12 June."),
    "Quint": ("I work from home on 5 June.", "We moved to Ghent on 12 January."),
    "Sepp": ("We celebrate Easter with my parents on 5 April.", "The party was moved to 12 June."),
    "Theo": ("The kids are at camp on 5 June.", "They moved the kids to Monday."),
    "Urs Egli": ("The dinner is at Luigi's on 5 June.", "The dinner was moved to 10 March and it was great."),
    "Wanda": ("The party is at Ben's on 5 June.", "My party was moved to 12 June."),
    "Xaver": ("My flight to Rome is on 5 June.", "My flight to Oslo was moved to 12 June."),
    "Yann": ("The exam is in room 4 on 5 June.", "The deadline of the exam was moved to 12 June."),
    "Ralf": ("The photos of the wedding are due on 5 June.", "The wedding was moved to 12 June."),
    "Yve": ("Our picnic is in the park on 5 June.", "Our picnic on 8 May was moved to 12 June."),
    "Abi Lund": ("I'm flying to Rome on 5 June.", "My flight from Rome was moved to 12 June."),
    "Bob Lund": ("The dinner with Mia's parents is at Luigi's on 5 June.", "The dinner with Mia was moved to 12 June."),
    "Cid Lund": ("The dinner is at Luigi's on 5 June.", "The dinner was moved from 8 May to 12 June."),
    "Dov Lund": ("The fair in Ghent is on 5 June.", "The fair is moved to 12 June in case of rain."),
    "Eli Lund": ("The fair in Ghent is on 5 June.", "The fair is moved to 12 June when it rains."),
    "Fay Lund": ("The exam is in room 4 on 5 June.", "The exam was moved to 12 June for those who were ill."),
    "Gus Lund": ("The hike is in the Alps on 5 June.", "The hike was moved to 12 June, but now it is on 5 June."),
    "Hal Lund": ("The hike is in the Alps on 5 June.", "The hike was moved to 12 June and then back to 5 June."),
    "Vic Lund": ("The hike is in the Alps on 5 June.", "The hike was moved to 12 June by mistake, it is as planned."),
    "Wes Lund": ("The hike is in the Alps on 5 June.", "The hike was moved to 12 June, no, it's on 5 June."),
    "Ida Lund": ("My exams are in room 4 on 5 June.", "My exam was moved to 12 June."),
    "Jim Lund": ("I'm interviewing a plumber on 5 June.", "My interview was moved to 12 June."),
    "Kim Lund": ("We celebrate Midsummer at the lake on 19 June.", "The party was moved to 12 June."),
    "Leo Lund": ("The exam is in room 4 on 5 June.", "Tom's school moved the exam to 12 June."),
    "Max Lund": ("The exam is in room 4 on 5 June.", "The other school moved the exam to 12 June."),
    "Ned Lund": ("The yoga course is every Monday from 5 June.", "The yoga course was moved to Tuesday."),
    "Ole Lund": ("The yoga course starts on 5 June.", "The yoga course was moved to Tuesday this week."),
    "Pia Lund": ("The fair in Ghent is on 5 June.", "Nobody moved the fair to 12 June."),
    "Ron Lund": ("The party is the reason I can't come on 5 June.", "The party was moved to 12 June."),
    "Sam Lund": ("The exam is marked by Tom on 5 June.", "The exam was moved to 12 June."),
    "Tim Lund": ("The show is at the Blue Door on 5 June, where Tom works.", "The show was moved to 12 June."),
    "Una Lund": ("The show is at the Blue Door on 5 June, Tom sings.", "The show was moved to 12 June."),
}


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of talks in which the first date is moved, or another event has another date."""
    folder = tmp_path_factory.mktemp("dates")
    lines: list[Line] = []
    for who, (before, after) in {**MOVED_DATES, **OTHER_DATES}.items():
        lines += said([(who, before)], f"{who} 1") + said([(who, after)], f"{who} 2", START + timedelta(days=20))
    learn(written(folder / "talk.jsonl", lines), folder / "memory")
    return folder / "memory"


@pytest.mark.parametrize("who", [*MOVED_DATES, *OTHER_DATES])
def test_the_older_date_of_an_event_ends_when_the_newer_one_is_said(dated: Path, who: str) -> None:
    own = rows(dated, "messages", f"speaker = '{who}'")["id"].to_list()
    old, new = rows(dated, "facts").filter(pl.col("message_id").is_in(own)).sort("valid_from").rows(named=True)
    assert new["valid_to"] is None
    assert (old["valid_to"] and old["valid_to"].date()) == (
        (START + timedelta(days=20)).date() if who in MOVED_DATES else None
    )


def test_another_person_with_such_an_event_ends_no_date(tmp_path: Path) -> None:
    turns = [
        ("Ana", "Our wedding is on 5 June."),
        ("Ben", "Our wedding is on 12 August."),
        ("Ana", "The fair in Ghent is on 5 June."),
        ("Ben", "The fair was moved to 12 June."),
    ]
    learn(written(tmp_path / "talk.jsonl", said(turns)), tmp_path / "memory")
    assert set(rows(tmp_path / "memory", "facts")["status"]) == {"active"}


def test_of_two_events_that_a_move_may_mean_neither_ends_and_of_one_event_every_statement(tmp_path: Path) -> None:
    turns = [
        ("Ana", "The fair in Ghent is on 5 June."),
        ("Ana", "The fair in Bruges is on 7 June."),
        ("Ben", "The dinner is at Luigi's on 5 June."),
        ("Ben", "We have the dinner with Mia on 5 June."),
    ]
    later = [("Ana", "The fair was moved to 12 June."), ("Ben", "The dinner was moved to 12 June.")]
    lines = said(turns, "c1") + said(later, "c2", START + timedelta(days=20))
    learn(written(tmp_path / "talk.jsonl", lines), tmp_path / "memory")
    gone = rows(tmp_path / "memory", "facts", "status = 'superseded'")["statement"]
    assert sorted(gone) == [
        'Ben: "The dinner is at Luigi\'s on 5 June."',
        'Ben: "We have the dinner with Mia on 5 June."',
    ]


def test_a_first_day_that_is_learned_after_the_move_has_ended(tmp_path: Path) -> None:
    talk, store = tmp_path / "talk.jsonl", tmp_path / "memory"
    later = said([("Ana", "Our wedding was moved to 12 June.")], "c2", START + timedelta(days=20))
    learn(written(talk, later), store)
    learn(written(talk, said([("Ana", "I'm getting married in Faro on 5 June.")], "c1")), store)
    held = dict(rows(store, "facts", columns=["predicate", "status"]).iter_rows())
    assert held == {"is": "superseded", "wedding_date": "active"}


@pytest.mark.parametrize(
    ("sentence", "kind", "owner"),
    [
        ("The date of the wedding was moved to 12 June.", "wedding", ""),
        ("My sister's exam date has just been changed from 5 June to 12 June.", "exam", "my sister's"),
        ("Our surgery was postponed by the clinic until next week.", "surgery", "our"),
        ("Unfortunately, the launch slipped back to March.", "launch", ""),
        ("Tom pushed the kickoff back to Monday.", "kickoff", ""),
        ("It was moved to 12 June.", "", ""),
        ("Her exam was moved to 12 June.", "", ""),
        ("Kestrel was moved to 12 June.", "", ""),
        ("The desk was moved to room 12.", "", ""),
        ("Was the exam moved to 12 June?", "", ""),
        ("If the exam is moved to 12 June, I can come.", "", ""),
        ("The exam was never moved to 12 June.", "", ""),
        ("We moved to Ghent on 12 June.", "", ""),
        ("The exam is on 12 June.", "", ""),
    ],
)
def test_an_event_that_is_moved_to_a_day_is_named_with_its_owner(sentence: str, kind: str, owner: str) -> None:
    found = moved_event(sentence)
    assert ((found.kind, found.owner) if found else ("", "")) == (kind, owner)


@pytest.mark.proof
@pytest.mark.parametrize("change", ["Peter Holm became my manager.", "I have a new manager, Peter Holm."])
def test_a_new_manager_takes_the_name_over(tmp_path: Path, change: str) -> None:
    talk, store = tmp_path / "talk.jsonl", tmp_path / "memory"
    for n, text in enumerate(["My manager is Clara Reyes.", change, "My former manager Tom Ford likes tea."]):
        learn(written(talk, said([("Nora", text)], f"c{n}", START + timedelta(days=n))), store)
    (bearer,) = rows(store, "entity_aliases", "alias_name = 'nora''s manager'")["entity_id"]
    assert rows(store, "entities", f"id = '{bearer}'")["name"].to_list() == ["Peter Holm"]


@pytest.mark.proof
def test_a_move_to_a_town_that_no_list_has_ends_the_old_home_alone(tmp_path: Path) -> None:
    talk, store = tmp_path / "talk.jsonl", tmp_path / "memory"
    learn(written(talk, said([("Nora", "I live in Porto and work at Globex.")])), store)
    later = START + timedelta(days=20)
    learn(written(talk, said([("Nora", "I moved to Globex."), ("Nora", "I moved to Stripe.")], "c2", later)), store)
    held = rows(store, "facts", "status = 'active'", ["predicate", "object_text"])
    assert {("lives_in", "Porto"), ("moved_to", "Stripe")} <= {*held.rows()}  # Stripe may be a company
    learn(written(talk, said([("Nora", "I moved to Zwolle, a small town.")], "c3", later)), store)
    held = rows(store, "facts", "status = 'active'", ["predicate", "object_text"])
    assert {("lives_in", "Zwolle"), ("works_at", "Globex")} <= {*held.rows()}
    assert ("lives_in", "Porto") not in held.rows()


def test_a_move_leaves_the_job_of_the_same_sentence(tmp_path: Path) -> None:
    before = {"Nora": "I live in Porto and work at Globex.", "Lucía": "Hola, vivo en Bilbao y trabajo en Airbus."}
    after = {"Nora": "I moved from Porto to Lisbon.", "Lucía": "Me mudé de Bilbao a Lisboa."}
    lines = said(before.items(), "c1") + said(after.items(), "c2", START + timedelta(days=20))
    learn(written(tmp_path / "talk.jsonl", lines), tmp_path / "memory")
    held = rows(tmp_path / "memory", "facts", "kind = 'relation'", ["object_text", "status"])
    jobs, homes = {("Globex", "active"), ("Airbus", "active")}, {("Porto", "superseded"), ("Bilbao", "superseded")}
    assert jobs | homes <= {*held.rows()}
