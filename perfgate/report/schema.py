"""The JSON schema of run.json from its types: ``kafka-perf-gate schema``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from pydantic.json_schema import GenerateJsonSchema

from perfgate.model import FAULTS
from perfgate.model.structured import adapter
from perfgate.report.entries import SCHEMA, STATED, Document

ID = "urn:kafka-perf-gate:run.json"
"""With the version behind it the name of the schema; nothing is fetched by it."""


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles, which repeat the names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema_text() -> str:
    schema = adapter(Document).json_schema(schema_generator=_Untitled)
    for name, keys in STATED.items():
        schema["$defs"][name].setdefault("required", []).extend(keys)
    schema["$defs"]["Fault"]["properties"]["kind"]["enum"] = [*FAULTS]
    head = {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"{ID}:{SCHEMA}"}
    return json.dumps({**head, **schema}, indent=1) + "\n"


@click.command(epilog="Example: kafka-perf-gate schema docs/run.schema.json")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def command(file: Path | None) -> int:
    """Print the JSON schema of run.json, or write it to FILE."""
    try:
        if file:
            file.write_text(schema_text())
        else:
            print(schema_text(), end="")
    except OSError as error:
        print(f"no schema: {error}", file=sys.stderr)
        return 2
    return 0
