"""The JSON Schema of the report: ``python -m exhume.audit.report.schema > docs/audit-schema.json`` writes it anew."""

from __future__ import annotations

import json
import sys

from exhume.audit.records import SCHEMA, Report

__all__ = ["schema_text"]


def schema_text() -> str:
    """Return the schema of report.json, made from the models that write it."""
    schema = Report.model_json_schema(by_alias=True, mode="serialization")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, **schema}
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
