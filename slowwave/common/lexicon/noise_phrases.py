"""Phrases of small talk, procedure and findings, and example texts of value and noise.

English first, with the commonest phrases in Spanish and German. All lower case, straight apostrophes.
"""

from __future__ import annotations

from . import words_of


def _listed(table: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in table.split("|"))


# Replies without content of their own (S4-11). Replies that can answer a question are separate.
ASSENTS = _listed(words_of("assents"))
THANKS = _listed(words_of("thanks"))

# Phrases for the announcement or report of a step (S4-11); matched at the start of an assistant's message.
PROCEDURAL_OPENERS = (
    r"^(?:i'll |i will |i've |i have |i looked at|i(?:'ve| have)? ?(?:made|updated|changed|added|removed|fixed|"
    r"created|modified|"
    r"implemented|wrote|ran)\b|i (?:made|updated|changed|added|removed|fixed|created|modified|implemented|wrote|"
    r"ran)\b|"
    r"let me (?:look|check|read|see)\b|sure! |sure, (?:i|let)|of course|done! |done\.|done$|absolutely|"
    r"voy a |he (?:hecho|actualizado|cambiado|añadido)|por supuesto|claro, |ich werde |ich habe |natürlich|gerne)"
)

# Words that announce a finding (S4-12).
FINDINGS = _listed(words_of("findings"))

# Texts worth keeping: work first, then the lives of people (S4-16).
QUALITY_PROTOTYPES = _listed(words_of("quality_prototypes"))
# Three of each kind, so that the three nearest can all be of the kind that a text is like.
NOISE_PROTOTYPES = _listed(words_of("noise_prototypes"))
