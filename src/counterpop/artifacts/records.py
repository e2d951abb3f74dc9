"""The record of an audit: what European rules on the transparency of recommenders ask to be kept.

It gathers what the Digital Services Act asks platforms to say about their recommenders (Art. 27: main parameters, their
relative importance, options to change them), what Regulation 2019/1150 asks of rankings (Art. 5: main parameters and
the reasons for their importance), and what an audit must state to be repeatable. It is a record, not legal advice.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpop.auditing import DEFINITIONS, Audit
from counterpop.auditing.weights import PopularityWeight
from counterpop.encoding import to_plain
from counterpop.errors import InputError

STATED = (
    "responsible",
    "service",
    "surface",
    "declared",
    "parameters",
    "options",
    "benchmark",
    "threshold",
    "mitigation",
    "limits",
)
"""What only the team can state, in a TOML file; all are text, or lists of text."""
NO_PROFILING = (
    "The strengths are an option to modify a parameter, the weight of popularity. They are not an option without "
    "profiling: the lists still rest on each user's own interactions."
)
LIMITS = (
    "The audit measures what is shown, not whether users like it, nor what they saw or clicked.",
    "Popularity is counted in the log, which the system itself may have shaped.",
    "Intervals cover which users were there, not changes of the log or of the catalogue.",
    "The grades are conventions of counterpop, not limits set by law.",
)


def read_statements(path: str | Path) -> dict[str, Any]:
    """What the team states, from a TOML file; an unknown key is an error."""
    try:
        stated = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not TOML ({error})"
        raise InputError(f"{path} could not be read: {reason}; correct it") from None
    for name, value in stated.items():
        if name not in STATED:
            raise InputError(f"{path} may state {', '.join(STATED)}, but it has {name!r}; remove it")
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            stated[name] = [str(text) for text in texts] if isinstance(value, list) else str(value)  # dates
    return stated


def make_record(
    document: Mapping[str, Any],
    one: Audit,
    weights: Mapping[str, PopularityWeight],
    stated: Mapping[str, Any],
    rules: Sequence[str],
) -> dict[str, Any]:
    """The record. What nobody stated is None, so that the gap is seen.

    `weights` are the measured weights of popularity in the scores, by the name of the lists; empty if only lists were
    given. `rules` are those of --fail-if.
    """
    decisive = ("amplification", "popularity_lift", "tail_share", "coverage")
    strengths = {name: document[name] for name in ("item_strength", "user_strength") if name in document}
    options: dict[str, Any] = {"stated": stated.get("options")}
    if strengths:
        options |= {"defaults": strengths, "range": [-10.0, 10.0], "without_profiling": False, "sentence": NO_PROFILING}
    changed = [row["name"] for row in document.get("changes", ()) if row["moved"]]
    record = {
        **{name: stated.get(name) for name in ("responsible", "service", "surface")},
        "main_parameters": {
            "stated": stated.get("parameters"),
            "popularity_in_scores": {name: weight._asdict() for name, weight in weights.items()} or None,
            "how": "Share of the variance of a user's scores over all items that the logarithm of the items' "
            "interactions explains, mean over users drawn at random."
            if weights
            else "Not measurable: the audit was given lists, not scores.",
        },
        "options": options,
        "declared_beforehand": {
            "date": stated.get("declared"),
            "benchmark": stated.get("benchmark"),
            "threshold": stated.get("threshold"),
            "rules": list(rules),
        },
        "result": {
            name: {
                "label": DEFINITIONS[name].label,
                "value": one.measures[name],
                "interval": one.intervals[name]._asdict() if name in one.intervals else None,
                "grade": one.grades.get(name),
            }
            for name in decisive
        },
        "verdict": {"headline": one.verdict.headline, "grade": one.verdict.grade},
        "since_last_audit": {"against": document["against"], "moved": changed} if "against" in document else None,
        "mitigation": {"stated": stated.get("mitigation"), **_mitigation(document)},
        "limits": [*LIMITS, *_listed(stated.get("limits"))],
    }
    return dict(to_plain(record))


def _mitigation(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the run's adjustment does, and the proof that was found when it was tuned."""
    if "tuning" not in document:
        return {}
    plain = document.get("plain")
    effect = None
    if plain is not None:
        names = ("amplification", "popularity_lift", "tail_share", "coverage")
        effect = {name: {"as_trained": plain[name], "adjusted": document[name]} for name in names}
    return {"adjustment": document["tuning"], "effect": effect}


def _listed(value: Any) -> list[str]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]
