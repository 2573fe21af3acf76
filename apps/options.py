"""Options that all commands share, and the store that they open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from slowwave.lexicon.labels import Locale
from slowwave.settings import ApprovalSettings, Group, Settings
from slowwave.timestamps import parse_moment

from .configuration import load_settings, store_uri

if TYPE_CHECKING:
    from recall.memory import Memory
    from storage.store import Store

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The store; default ./memory or $SLOWWAVE_STORE.", show_default=False),
]
NamespaceOption = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Which memory inside the store.")]
MaxUsdOption = Annotated[float | None, typer.Option("--max-usd", help="Stop cleanly at this cost.", show_default=False)]
MaxCallsOption = Annotated[
    int | None, typer.Option("--max-calls", help="Stop cleanly after this many model calls.", show_default=False)
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option("--max-tokens", help="Stop cleanly after this many tokens, in and out.", show_default=False),
]
AsOf = Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="What was true then.", show_default=False)]
KnownAsOf = Annotated[
    str | None, typer.Option("--known-as-of", metavar="TIME", help="What was believed then.", show_default=False)
]
OnlyOption = Annotated[
    Literal["facts", "messages"] | None,
    typer.Option("--only", help="Only facts, or only passages of messages.", show_default=False),
]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(
        "--also", metavar="TEXT", help="The question in other words, too; may be repeated.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]

RequireApproval = Annotated[
    bool, typer.Option("--require-approval", help="Leave every change for a person: slowwave review.")
]


def time_of(text: str | None) -> datetime | None:
    """The time that an option names; none where it was left out."""
    return parse_moment(text) if text is not None else None


T = TypeVar("T", bound=Group)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command works."""

    uri: str
    namespace: str
    settings: Settings

    @classmethod
    def of(cls, store: str | None, namespace: str) -> Place:
        """The place that the flags, the environment and `slowwave.toml` name."""
        return cls(store_uri(store), namespace, load_settings())

    @property
    def locale(self) -> Locale:
        """The language in which types and relations are shown (C8)."""
        return self.settings.labels.locale

    def kept(self, settings: T) -> T:
        """The settings of a flow with the retention of the file, and its approval unless the flow has its own."""
        update: dict[str, Group] = {"retention": self.settings.retention}
        if getattr(settings, "approval", None) == ApprovalSettings():
            update["approval"] = self.settings.approval
        return settings.model_copy(update=update)

    def store(self) -> Store:
        """The namespace, which must exist."""
        from storage.store import Store

        return Store.open(self.uri, self.namespace, retention=self.settings.retention)

    def attached(self) -> Store:
        """The namespace without a look at its state, which may be damaged."""
        from storage.store import Store

        return Store.attach(self.uri, self.namespace, retention=self.settings.retention)

    def memory(self) -> Memory:
        """The namespace on the read road."""
        from recall.memory import Memory

        return Memory.open(self.uri, self.namespace, settings=self.settings.recall)
