"""The JSON schema of run.json from its types: ``python -m perfgate.report.schema`` writes docs/run.schema.json."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic.json_schema import GenerateJsonSchema

from perfgate.model import FAULTS
from perfgate.model.structured import adapter
from perfgate.report.entries import STATED, Document

PATH = Path(__file__).parents[2] / "docs" / "run.schema.json"


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles, which repeat the names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return that no field has one."""
        return False


def schema_text() -> str:
    """Return the schema as its file has it."""
    made = adapter(Document).json_schema(schema_generator=_Untitled)
    for name, keys in STATED.items():
        made["$defs"][name].setdefault("required", []).extend(keys)
    made["$defs"]["Fault"]["properties"]["kind"]["enum"] = [*FAULTS]
    return json.dumps({"$schema": GenerateJsonSchema.schema_dialect, **made}, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema_text())
