"""The JSON schema of an audit: what `counterpop audit --schema` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from counterpop.artifacts.documents import FORM, VERSION
from counterpop.auditing import DEFINITIONS, THRESHOLDS

_NUMBER = {"type": ["number", "null"]}
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}


def _object(properties: Mapping[str, Any], *, required: bool = True, **more: Any) -> dict[str, Any]:
    needed = {"required": list(properties)} if required else {}
    return {"type": "object", "properties": dict(properties), **needed, **more}


def _same(names: Iterable[str], kind: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(kind) for name in names}


def _map(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": dict(values)}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


_USERS = _object({"name": _TEXT, "users": _COUNT}, additionalProperties=True)
_ITEM = _object(
    {"item": {"type": ["integer", "string"]}, "name": {"type": ["string", "null"]}}
    | {"interactions": _COUNT, "lists": _COUNT, "expected_lists": {"type": "number"}}
)
_CATEGORY = _object(
    {"name": _TEXT, "items": _COUNT, "never_recommended": _COUNT}
    | _same(("interactions", "frequency", "attention"), {"type": "number"})
)
_CHANGE = _object(
    {"name": {"enum": list(DEFINITIONS)}, "before": _NUMBER, "after": _NUMBER, "difference": _NUMBER}
    | {"low": _NUMBER, "high": _NUMBER, "p_value": _NUMBER, "moved": {"type": "boolean"}}
)
_GROUP = _object({"items": _COUNT, "interactions": {"type": "number"}, "frequency": {"type": "number"}})
_DEFINITION = _object(_same(("label", "definition", "source", "published"), _TEXT))
_INTERVAL = _object(_same(("low", "high", "standard_error"), {"type": "number"}))
_OUTCOME = _object({"rule": _TEXT, "lists": _TEXT, "value": _NUMBER, "broken": {"type": "boolean"}, "sentence": _TEXT})
_INPUT = _object(
    {"role": _TEXT, "path": _TEXT, "bytes": {"type": ["integer", "null"]}, "sha256": {"type": ["string", "null"]}}
)
_AUDIT = {
    "k": {"type": "integer", "minimum": 1},
    "users": _COUNT,
    "items": _COUNT,
    "head_items": _COUNT,
    "verdict": _object(_same(("leaning", "headline", "text", "grade"), _TEXT)),
    **{name: {**_NUMBER, "description": definition.text} for name, definition in DEFINITIONS.items()},
    "published": _map(_NUMBER),
    "intervals": _map(_INTERVAL),
    "without": {
        **_map(_list(_NUMBER)),
        "description": "Each measure without each of 40 folds of users, by a hash of their id: for --against.",
    },
    "grades": _object(_same(THRESHOLDS, {"enum": ["good", "watch", "bad", "unknown"]}), required=False),
    "meanings": _map(_TEXT),
    "thresholds": _map(_TEXT),
    "groups": _list(_GROUP),
    "segments": _list(_USERS),
    "attributes": _map(_list(_USERS)),
    "categories": _map(_object({"awrf": _NUMBER, "rows": _list(_CATEGORY)})),
    "over_exposed": _list(_ITEM),
    "never_recommended": _list(_ITEM),
    "frequency_by_rank": _object({"rank": _list(_NUMBER), "share_of_users": _list(_NUMBER)}),
    "notes": _map(_COUNT),
    "definitions": _map(_DEFINITION),
}
_PERIOD = {"type": ["string", "number", "null"], "description": "From the times of the log; null if it has none."}


def audit_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the document that `counterpop audit` prints and writes.

    Fields are added without a new version, and readers ignore those that they do not know.
    """
    head = {
        "schema": {"const": f"{FORM}/{VERSION}"},
        "counterpop": {**_TEXT, "description": "The version that measured."},
        "python": _TEXT,
        "date": {"type": "string", "format": "date-time"},
        "title": {**_TEXT, "description": "The service and surface, as --title named them."},
        "note": _TEXT,
        "log": _object({**_same(("pairs", "merged", "users", "items"), _COUNT), "from": _PERIOD, "to": _PERIOD}),
        "inputs": _list(_INPUT),
        "population": _TEXT,
        "sampling": _TEXT,
    }
    one, change = {"$ref": "#/$defs/audit"}, {"$ref": "#/$defs/change"}
    more = {
        "plain": {**one, "description": "Of a run: its lists as trained, at strengths 0."},
        "sample": {"type": "object", "description": "Whose lists were audited, if not everybody's."},
        "others": {**_map(one), "description": "Further systems that were audited at the same time."},
        "between": {**_map(_list(change)), "description": "What each of them does differently from the first."},
        "against": _object({"path": _TEXT, "date": _TEXT, "title": _TEXT, "counterpop": _TEXT}),
        "changes": {**_list(change), "description": "What moved since the audit given by --against."},
        "rules": _list(_OUTCOME),
        "record": {"type": "object", "description": "What --record adds."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{FORM}:{VERSION}",
        "title": "An audit of what recommendations expose",
        "allOf": [one],
        **_object(head),
        "properties": {**head, **more},
        "$defs": {"audit": _object(_AUDIT), "change": _CHANGE},
    }
