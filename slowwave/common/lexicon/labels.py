"""Labels: the words of types and relations, English in the store and in sofia's Spanish, both understood (C8)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal

Locale = Literal["en", "es"]
"""The language of shown types and relations; the words of both are always understood."""
DATED = (
    r"^scheduled_for$|(?:^|_)(?:wedding|release|launch|roll_out|rollout|start|end|due|exam|appointment|meeting|party|trip"
    r"|move|opening|delivery|surgery|interview)_date$"
)
"""A pattern of relations whose object is the day of an event; each has one at a time."""

_TYPES: Mapping[str, str] = {
    "person": "Persona people",
    "tool": "Herramienta tecnología technology",
    "concept": "Concepto",
    "project": "Proyecto",
    "language": "Lenguaje idioma lengua",
    "file": "Archivo fichero",
    "config": "Configuración configuration",
    "organization": "Organización organisation org company empresa",
    "place": "Lugar location",
    "event": "Evento",
    "session": "Sesión",
}
"""Each type with its other words; the first one is sofia's."""
_RELATIONS: Mapping[str, str] = {
    "works_at": "trabaja_en trabaja_para empleado_de empleada_de",
    "lives_in": "vive_en reside_en",
    "moved_to": "se_mudó_a",
    "born_in": "nació_en",
    "joined": "se_unió_a se_incorporó_a",
    "has_role": "tiene_rol trabaja_como",
    "married_to": "casado_con casada_con",
    "engaged_to": "prometido_con prometida_con comprometido_con comprometida_con",
    "dating": "sale_con pareja_de",
    "manages": "dirige gestiona administra supervisa",
    "reports_to": "reporta_a supervisado_por supervisada_por",
    "has_manager": "su_gerente",
    "has_boss": "su_jefe su_jefa",
    "member_of": "miembro_de es_miembro_de",
    "owns": "posee tiene",
    "uses": "usa utiliza",
    "prefers": "prefiere le_gusta le_gustan",
    "replaces": "reemplaza reemplaza_a sustituye sustituye_a",
    "drinks": "bebe",
    "eats": "come",
    "dislikes": "no_le_gusta no_le_gustan odia detesta",
    "depends_on": "depende_de requiere necesita",
    "knows": "conoce conoce_a",
    "works_on": "se_ocupa_de trabaja_sobre",
    "studies_at": "estudia_en",
    "studies": "estudia",
    "decided": "decidió",
    "created": "creó",
    "fixed": "arregló corrigió",
    "caused_by": "causado_por causada_por debido_a",
    "is_from": "es_de viene_de",
    "age": "edad",
    "parent_of": "padre_de madre_de",
    "related_to": "pariente_de hermano_de hermana_de",
    "has_pet": "tiene_mascota",
    "practices": "practica",
    "skilled_in": "sabe",
    "has_condition": "padece sufre_de",
    "believes": "cree_en",
    "wants_to": "quiere",
    "plans_to": "planea",
    "asked_for": "pidió",
    "attended": "asistió_a",
    "visited": "visitó",
    "bought": "compró",
    "received": "recibió",
    "achieved": "logró",
    "scheduled_for": "programado_para",
    "located_in": "ubicado_en situado_en",
    "contains": "contiene",
    "part_of": "parte_de es_parte_de",
    "similar_to": "similar_a parecido_a parecida_a",
}
"""Each relation of the default ontology with its Spanish words; the first one is shown (S0-15)."""
_BETWEEN = re.compile(r"[\s_-]+")


def label_key(word: str) -> str:
    """A word in the form for comparison: lower case, without accents, its parts joined by `_`."""
    letters = unicodedata.normalize("NFKD", word).casefold()
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return _BETWEEN.sub("_", bare).strip("_")


TYPES: tuple[str, ...] = tuple(_TYPES)
"""The stored types of entities."""
_TYPE_OF = {label_key(word): name for name, words in _TYPES.items() for word in (name, *words.split())}
_RELATION_OF = {label_key(word): name for name, words in _RELATIONS.items() for word in (name, *words.split())}
_SHOWN_TYPES = {name: label_key(words.split()[0]).capitalize() for name, words in _TYPES.items()}
_SHOWN_RELATIONS = {name: label_key(words.split()[0]) for name, words in _RELATIONS.items()}


def canonical_type(word: str) -> str | None:
    """The type of a word in either language, in any case, with or without accents; None for an unknown word."""
    return _TYPE_OF.get(label_key(word))


def canonical_relation(word: str) -> str:
    """The relation of the default ontology for its name or a Spanish word for it; other words stay unchanged.

    For what people ask for. Relations that are read have more words, learned ones among them: see `canonicalise` and
    `known_relation` in `slowwave/facts/revision/predicates`.
    """
    return _RELATION_OF.get(label_key(word), word)


def relation_forms(canonical: str) -> tuple[str, ...]:
    """The Spanish words of a relation, each with accents and without."""
    words = _RELATIONS.get(canonical, "").split()
    return tuple(dict.fromkeys(form for word in words for form in (word, label_key(word))))


def shown_type(type: str, locale: Locale) -> str:
    """The shown form of a stored type: `session`, or `Sesion` as in sofia; an unknown type stays unchanged."""
    return _SHOWN_TYPES.get(type, type) if locale == "es" else type


DENIAL = re.compile(r"^(?:(?:does|do|did|is|was|has)_not|not|no_longer|stopped)_")
"""How a relation begins that denies another one."""
_AVERSE = frozenset({"dislikes", "hates", "avoids"})


def is_denial(relation: str) -> bool:
    """Whether a relation denies by itself: of "does not eat" and "dislikes" a negated fact says the same."""
    return relation in _AVERSE or DENIAL.match(relation) is not None


def shown_relation(relation: str, locale: Locale) -> str:
    """The shown form of a stored relation: `part_of` or `parte_de`; an unknown one stays unchanged."""
    return _SHOWN_RELATIONS.get(relation, relation) if locale == "es" else relation
