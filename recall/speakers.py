"""Who said it: the speakers of messages, for lists in which a name tells more than an id."""

from __future__ import annotations

from collections.abc import Iterable

from slowwave.answers import Provenance
from storage.snapshots import Snapshot


def speakers_of(snapshot: Snapshot, sources: Iterable[Provenance]) -> dict[tuple[str, str], str]:
    """The speaker, else the role, of each message by its conversation and its id there; documents by file name."""
    ids = sorted({source.message_id for source in sources})
    columns = ["conversation_id", "message_id", "speaker", "role"]
    said = snapshot.by_ids("messages", ids, columns, key="message_id")
    return {
        (talk, message): talk.rpartition("/")[2] if role == "document" else speaker or role or ""
        for talk, message, speaker, role in said.iter_rows()
    }
