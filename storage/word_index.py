"""Word index: BM25 over a column in memory, with the words, the weights and so the scores of LanceDB's own index."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Words = npt.NDArray[np.int32]
K1, B = 1.2, 0.75


class WordIndex:
    """n texts, and for each of w words the texts that say it: `places[starts[j]:starts[j + 1]]`, with its `weights`.

    A weight is what the word adds to the score of that text: its rarity × its frequency, damped by the text's length.
    Where an index of `earlier` texts is given, only texts that it does not have are taken apart.
    """

    def __init__(self, texts: Iterable[str], earlier: WordIndex | None = None) -> None:
        self._numbers: dict[str, int] = dict(earlier._numbers) if earlier is not None else {}
        self._known: dict[int, Words] = {}  # by hash: the texts themselves would be held twice
        known = earlier._known if earlier is not None else {}
        said = []
        for text in texts:
            key = hash(text)
            if key not in self._known:
                self._known[key] = known[key] if key in known else self._taken_apart(text)
            said.append(self._known[key])
        lengths = np.fromiter(map(len, said), np.int64, len(said))
        words = np.concatenate([np.zeros(0, np.int32), *said]).astype(np.int64)
        self.size = len(said)
        where = words * max(self.size, 1) + np.repeat(np.arange(self.size), lengths)
        pairs, counts = np.unique(where, return_counts=True)
        word, places = np.divmod(pairs, max(self.size, 1))
        holding = np.bincount(word, minlength=len(self._numbers))
        rarity = np.log1p((self.size - holding + 0.5) / (holding + 0.5))
        damping = K1 * (1.0 - B + B * lengths / max(lengths.mean(), 1.0)) if self.size else np.zeros(0)
        self.starts = np.concatenate(([0], np.cumsum(holding)))
        self.places: Words = places.astype(np.int32)
        self.weights: Numbers = rarity[word] * counts * (K1 + 1.0) / (counts + damping[places])

    def scores(self, query: str) -> Numbers:
        """(n,) BM25 of each text, 0 where it says no word of the query; a word that is asked twice counts twice."""
        total = np.zeros(self.size)
        for word in words_of(query):
            if (number := self._numbers.get(word)) is not None:
                held = slice(self.starts[number], self.starts[number + 1])
                total[self.places[held]] += self.weights[held]
        return total

    def _taken_apart(self, text: str) -> Words:
        return np.array([self._numbers.setdefault(word, len(self._numbers)) for word in words_of(text)], np.int32)


def words_of(text: str) -> list[str]:
    """The words of a text as the full-text index of a column holds them: folded, stemmed, without stop words."""
    from lancedb import tokenize

    return [token.text for token in tokenize(text)]
