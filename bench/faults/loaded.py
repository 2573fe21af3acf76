"""Everything that a scene needs, loaded but not used: processes are forked from one that has imported this."""

import anthropic  # noqa: F401
import instructor  # noqa: F401
import lancedb.index
import lancedb.query  # noqa: F401

from inference.embedding import open_embedder

from . import trial  # noqa: F401

open_embedder().embed([])  # its weights are read once
