"""Seeded text at any scale: conversations and facts from recombined templates, about entities of Zipfian frequency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from random import Random
from typing import Any

ZIPF = 1.0
START = datetime(2025, 1, 6, 9, tzinfo=UTC)

_FIRST = (
    "Ada Bruno Carla Dario Elena Farid Greta Hugo Ines Jonas Kira Liam Mona Nils Olga Pavel Quinn Rosa Stefan "
    "Tara Uma Viktor Wanda Xenia Yusuf Zora Amira Boris Celia Dmitri Esther Felix Gloria Hassan Irma Jorge "
    "Katja Leon Marek Nadia"
).split()
_LAST = (
    "Almeida Brandt Castillo Dorn Eriksen Fontaine Grant Hollis Ivanov Jansen Keller Lindholm Moreau Novak "
    "Okafor Pereira Quist Romero Sato Tanaka Ulrich Vargas Weber Yilmaz Zeman Abbott Becker Cohen Duarte Engel"
).split()
_HEADS = (
    "Amber Basalt Cobalt Delta Ember Falcon Granite Harbor Indigo Juniper Krypton Lumen Meadow Nimbus Onyx Pine".split()
)
_TAILS = "Gate Forge Bridge Mesh Relay Vault Stream Index Router Ledger Cache Portal Queue Engine Board Signal".split()
_TOOLS = (
    "PostgreSQL Redis Kafka Terraform Grafana Docker Neovim Rust Python Go Svelte React Airflow Spark DuckDB "
    "Nginx Ansible Prometheus RabbitMQ SQLite Django FastAPI Kotlin Elixir Bazel Nix Vault Consul Envoy Istio"
).split()
_PLACES = "Lisbon Oslo Turin Leeds Porto Graz Utrecht Malmo Vigo Basel Ghent Krakow Bergen Nantes Bilbao Aarhus".split()
_THINGS = (
    "the retry limit|the connection pool|the export job|the login page|the search index|the nightly backup|"
    "the billing report|the rate limiter|the mobile build|the staging cluster|the image resizer|"
    "the webhook handler|the audit log|the job queue"
).split("|")
_CAUSES = (
    "a missing index|a stale cache|a clock that drifted|a leaked connection|an expired certificate|"
    "a race in the scheduler|an unbounded queue|a wrong time zone|a half-applied migration|a retry storm"
).split("|")
_HOBBIES = "climbing sourdough chess cycling pottery birdwatching swimming sailing woodworking photography".split()

_TOLD = (
    "I work at {project} with {person} since {month}.",
    "{person} is the new lead of {project}.",
    "We decided to use {tool} for {project} because of {cause}.",
    "{project} switched from {tool} to {tool2} last week.",
    "I moved from {place} to {place2} in {month}.",
    "{person} prefers {tool} over {tool2} for {thing}.",
    "The root cause of the outage in {project} was {cause}; we fixed it by changing {thing}.",
    "{thing} of {project} is now {number} instead of {number2}.",
    "My sister {person} lives in {place} and took up {hobby}.",
    "{person} does not like {tool}, but {person2} does.",
    "{project} runs on {tool} and {tool2} in {place}.",
    "I started {hobby} with {person} two months ago.",
    "{person} will present {project} in {place} next {month}.",
    "Never restart {thing} of {project} while {tool} is running.",
)
_LONG = (
    "For {project} I looked at {thing} again. It turned out that {cause} made {tool} slow, so {person} raised the "
    "limit to {number}. After that the error rate fell from {number2} to almost nothing, and we will keep {tool2}.",
    "Here is what I found: {project} stores its state in {tool}, and {person} owns the part that talks to {tool2}. "
    "The safest order is to pause {thing}, apply the change, and let {person2} check the dashboards in {place}.",
)
_ASKED = (
    "How is {project} doing?", "Can you check {thing} of {project}?", "What did {person} say about {tool}?",
    "Is {thing} still broken?", "Who should look at {thing}?",
)  # fmt: skip
_SMALL = ("Thanks!", "ok", "Sounds good.", "Great, let me know.", "Haha, nice one.", "Good morning!", "Sure, go ahead.")
_TOOL_OUTPUT = "{number} passed, {number2} failed in {thing}\nlevel=info service={project} duration={number}ms"
_MONTHS = "January February March April May June July August September October November December".split()

_FACTS = (
    ("works at", "{person} works at {project}.", "Where does {person} work?"),
    ("lives in", "{person} lives in {place}.", "Where does {person} live?"),
    ("uses", "{project} uses {tool} for {thing}.", "What does {project} use for {thing}?"),
    ("prefers", "{person} prefers {tool} over {tool2}.", "What does {person} prefer to {tool2}?"),
    (
        "caused by",
        "The outage of {thing} in {project} was caused by {cause}.",
        "What caused the outage of {thing} in {project}?",
    ),
    ("owns", "{person} owns {thing} of {project}.", "Who owns {thing} of {project}?"),
    ("set to", "{thing} of {project} is set to {number}.", "What is {thing} of {project} set to?"),
    ("takes up", "{person} took up {hobby} with {person2} in {month}.", "With whom did {person} take up {hobby}?"),
)


@dataclass(frozen=True, slots=True)
class Pool:
    """Names of one kind, the first ones far more frequent than the last."""

    names: Sequence[str]
    cumulative: Sequence[float]

    @classmethod
    def of(cls, names: Sequence[str]) -> Pool:
        """Zipf weights 1/rank."""
        total, sums = 0.0, []
        for rank in range(1, len(names) + 1):
            total += 1.0 / rank**ZIPF
            sums.append(total)
        return cls(names, sums)

    def draw(self, random: Random) -> str:
        """One name."""
        return random.choices(self.names, cum_weights=self.cumulative)[0]


def pools(seed: int) -> Mapping[str, Pool]:
    """The names that a world of this seed holds, by kind."""
    random = Random(seed)
    people = [f"{a} {b}" for a, b in product(_FIRST, _LAST)]
    projects = [f"{a}{b}" for a, b in product(_HEADS, _TAILS)]
    random.shuffle(people)
    random.shuffle(projects)
    kinds = {
        "person": people, "project": projects, "tool": _TOOLS, "place": _PLACES, "thing": _THINGS, "cause": _CAUSES,
        "hobby": _HOBBIES, "month": _MONTHS,
    }  # fmt: skip
    return {kind: Pool.of(names) for kind, names in kinds.items()}


def filled(template: str, world: Mapping[str, Pool], random: Random) -> str:
    """The template with names drawn for its places."""
    return template.format(**drawn(world, random))


def drawn(world: Mapping[str, Pool], random: Random) -> dict[str, str]:
    """A name for every place that a template may have."""
    values = {kind: pool.draw(random) for kind, pool in world.items()}
    seconds = {f"{kind}2": _another(values[kind], world[kind], random) for kind in ("person", "tool", "place")}
    numbers = {"number": str(random.randint(2, 9999)), "number2": str(random.randint(2, 9999))}
    return values | seconds | numbers


def _another(name: str, pool: Pool, random: Random) -> str:
    return next(other for _ in iter(int, 1) if (other := pool.draw(random)) != name)


def messages(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """So many messages of conversations of 8 to 40 turns, as `ingest` reads them."""
    return islice(_turns(seed), count)


def _turns(seed: int) -> Iterator[dict[str, Any]]:
    world, random, at = pools(seed), Random(seed + 1), START
    number = 0
    while True:
        at += timedelta(hours=random.randint(1, 30))
        speaker = world["person"].draw(random)
        for place in range(random.randint(8, 40)):
            at += timedelta(seconds=random.randint(5, 300))
            role, content = _turn(place, world, random)
            yield {
                "conversation_id": f"c{number:06d}", "message_id": f"c{number:06d}-{place:03d}", "role": role,
                "speaker": speaker if role == "user" else role, "content": content, "occurred_at": at.isoformat(),
            }  # fmt: skip
        number += 1


def _turn(place: int, world: Mapping[str, Pool], random: Random) -> tuple[str, str]:
    """A person and an assistant in turn; now and then a tool speaks, and some of it is small talk."""
    if random.random() < 0.05:
        return "tool", filled(_TOOL_OUTPUT, world, random)
    if place % 2:
        kinds = random.choices((_LONG, _TOLD, _SMALL), (0.6, 0.2, 0.2))[0]
        return "assistant", filled(random.choice(kinds), world, random)
    if random.random() < 0.15:
        return "user", random.choice(_SMALL)
    parts = random.choices((_TOLD, _ASKED, _LONG), (0.7, 0.2, 0.1), k=random.randint(1, 3))
    return "user", " ".join(filled(random.choice(kind), world, random) for kind in parts)


@dataclass(frozen=True, slots=True)
class FactText:
    """One synthetic fact: who, what, the sentence, and a question that it answers."""

    subject: str
    predicate: str
    object: str
    statement: str
    question: str


def facts(count: int, seed: int) -> Iterator[FactText]:
    """So many facts; statements may repeat as they do in life, but seldom."""
    world, random = pools(seed), Random(seed + 2)
    for _ in range(count):
        predicate, said, asked = random.choice(_FACTS)
        names = drawn(world, random)
        ends = [place for place in ("person", "project", "place", "tool", "thing") if f"{{{place}}}" in said]
        statement = said.format(**names)
        statement = statement[0].upper() + statement[1:]
        yield FactText(names[ends[0]], predicate, names[ends[-1]], statement, asked.format(**names))
