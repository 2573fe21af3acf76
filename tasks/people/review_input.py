"""The base of the review form. It imports Prefect, so it is imported only where a form is made."""

from __future__ import annotations

from typing import Any

from prefect.input import RunInput


class ReviewInput(RunInput):
    """A form whose fields bear their titles in both UIs of Prefect.

    One reads the title of a property, the other that of what it refers to; pydantic writes an equal one only there.
    """

    @classmethod
    def model_json_schema(cls, *given: Any, **named: Any) -> dict[str, Any]:
        """The JSON schema, in which each property has its own title."""
        schema = super().model_json_schema(*given, **named)
        titles = {name: field.title for name, field in cls.model_fields.items() if field.title}
        for name, field_schema in schema["properties"].items():
            field_schema["title"] = titles.get(name, field_schema.get("title", name))
        return schema
