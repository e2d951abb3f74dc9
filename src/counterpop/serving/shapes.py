"""The parameters of requests and the shapes of answers; the OpenAPI description is generated from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

MOST_K = 1000
MOST_AUDITED_K = 100
MOST_LISTS = 1024  # in one batch
MOST_ENTRIES = 200_000  # in all lists of a batch together
MOST_HISTORY = 1000
STRONGEST = 10.0
LONGEST_ID = 256


def _whole(value: Any) -> Any:
    """In JSON 20.0 is a whole number; Pydantic would also accept true and "20"."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("whole", "Input should be a whole number")
    return value


def _id(value: Any) -> int | str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and 1 <= len(value) <= LONGEST_ID and value == value.encode(errors="ignore").decode():
        return value  # without half of a surrogate pair, which an answer could not quote
    raise PydanticCustomError("id", f"Input should be an id: a whole number, or text of 1 to {LONGEST_ID} characters")


Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
AnyId = Annotated[
    int | str,
    PlainValidator(_id),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}]}),
]
Strength = Annotated[float, Field(ge=-STRONGEST, le=STRONGEST, allow_inf_nan=False)]


class Parameters(BaseModel):
    """No parameters; the base of requests that have some. Any other parameter is refused."""

    model_config = ConfigDict(extra="forbid")


class Dialled(Parameters):
    item_strength: Strength | None = Field(
        None, description="How much of the popular direction to remove from items; by default as tuned."
    )
    user_strength: Strength | None = Field(
        None, description="How much of the conformity direction to remove from users; by default as tuned."
    )
    k: int = Field(20, ge=1, le=MOST_K, description="Length of the list.")


class ForAudit(Dialled):
    k: int = Field(20, ge=1, le=MOST_AUDITED_K, description="Length of the lists.")


class Auditing(ForAudit):
    of: Literal["run", "window"] = Field(
        "run",
        description="Everybody's lists at these strengths, or those that were served last, whatever their strengths.",
    )


class ForUser(Dialled):
    user: Id = Field(description="The user's id, as in the log.")


class Batch(Dialled):
    """Lists for many users, or for people known only by the items they interacted with: one of the two."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"oneOf": [{"required": ["users"]}, {"required": ["histories"]}]}
    )

    k: Annotated[int, BeforeValidator(_whole), Field(strict=False)] = Field(
        20, ge=1, le=MOST_K, description="Length of the lists."
    )
    users: list[AnyId] = Field(default=[], min_length=1, max_length=MOST_LISTS)
    histories: list[Annotated[list[AnyId], Field(min_length=1, max_length=MOST_HISTORY)]] = Field(
        default=[], min_length=1, max_length=MOST_LISTS, description="One list of item ids per person."
    )


class ForItem(Parameters):
    item: Id = Field(description="The item's id, as in the log.")
    k: int = Field(20, ge=1, le=MOST_K)
    item_strength: Strength | None = None


class OfUser(Parameters):
    user: Id


class Search(Parameters):
    search: str = Field("", max_length=256, description="The beginning of an id.")


class Problem(BaseModel):
    detail: str = Field(description="One sentence: what is required, and what was received.")


class Entry(BaseModel):
    item: int | str
    score: float
    name: str | None = Field(None, description="Present if the server has a table of names.")


class Recommended(BaseModel):
    user: int | str | None = Field(description="null for a history.")
    fallback: Literal["popular"] | None = Field(
        description="Set if the user is unknown: the common list at the tuned strengths, whatever the request says."
    )
    items: list[Entry]


class AtStrengths(BaseModel):
    k: int
    item_strength: float
    user_strength: float


class Recommendation(Recommended, AtStrengths):
    pass


class Recommendations(AtStrengths):
    lists: list[Recommended]


class Similar(BaseModel):
    item: int | str
    item_strength: float
    items: list[Entry]


class Touched(BaseModel):
    item: int | str
    name: str | None = None
    interactions: int


class TouchedAt(Touched):
    time: str | None = Field(None, description="When, in ISO 8601; null if the log has no dates.")


class History(BaseModel):
    user: int | str
    order: Literal["latest", "popular"] = Field(
        description="The latest first, or the most popular if there are no times."
    )
    items: list[TouchedAt]


class ExplainedEntry(Touched):
    """plain_score = popular_part + conformity_part + adjusted_score"""

    plain_rank: int
    adjusted_rank: int
    plain_score: float
    popular_part: float
    conformity_part: float
    adjusted_score: float


class Explanation(AtStrengths):
    user: int | str
    version: int
    plain: list[ExplainedEntry]
    adjusted: list[ExplainedEntry]


class FoundUser(BaseModel):
    user: int | str
    interactions: int


class FoundUsers(BaseModel):
    users: list[FoundUser]


class Readiness(BaseModel):
    run: str
    written: str
    version: int
    users: int
    items: int
    names: int | None = Field(description="Number of items that have a name; null without a table of names.")
    unknown: Literal["popular", "404"]
    failed_reload: str | None


class Audited(AtStrengths):
    """The output of `counterpop audit RUN --json` for the lists at these strengths."""

    model_config = ConfigDict(extra="allow")

    run: str
    users: int
    items: int
    verdict: dict[str, str]
    definitions: dict[str, dict[str, str]]


class Health(BaseModel):
    status: Literal["ok"]


class Measured(BaseModel):
    """Every metric at every pair of slider stops: values[name][item stop][user stop]."""

    version: int
    k: int
    users: int
    of_users: int
    step: float
    tuned: list[float] = Field(min_length=2, max_length=2)
    points: dict[str, list[float]] = Field(description="Item and user strength of each named point of the frontier.")
    sentence: str | None = Field(description="How the strengths were chosen; null if they were not.")
    item_strengths: list[float]
    user_strengths: list[float]
    values: dict[str, list[list[float]]] = Field(
        description="With an ordinary part also `price`: the share of recall lost there."
    )
    errors: dict[str, list[list[float]]] = Field(
        description="Standard errors of the difference of `recall` from strength 0, and of `price`."
    )
    groups: list[dict[str, Any]]
