"""What requests may hold and what answers look like: the OpenAPI description is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

MOST_K = 1000
MOST_AUDITED_K = 100
MOST_LISTS = 1024  # in one batch
MOST_ENTRIES = 200_000  # of all lists of a batch together
MOST_HISTORY = 1000
STRONGEST = 10.0

LONGEST_ID = 256


def _whole(value: Any) -> Any:
    """JSON knows 20.0 as a whole number; Python would also take true and "20"."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("whole", "Input should be a whole number")
    return value


def _id(value: Any) -> int | str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and 1 <= len(value) <= LONGEST_ID and _is_unicode(value):
        return value
    raise PydanticCustomError("id", f"Input should be an id: a whole number, or text of 1 to {LONGEST_ID} characters")


def _is_unicode(text: str) -> bool:
    """False for half of a surrogate pair, which no answer could repeat."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
AnyId = Annotated[
    int | str,
    PlainValidator(_id),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}]}),
]
Strength = Annotated[float, Field(ge=-STRONGEST, le=STRONGEST, allow_inf_nan=False)]


class Strengths(BaseModel):
    model_config = ConfigDict(extra="forbid")

    item_strength: Strength | None = Field(
        None, description="How far the popular direction is taken out of items; the tuned one by default."
    )
    user_strength: Strength | None = Field(
        None, description="How far the conformity direction is taken out of users; the tuned one by default."
    )


class Dialled(Strengths):
    k: int = Field(20, ge=1, le=MOST_K, description="Length of the list.")


class Auditing(Strengths):
    k: int = Field(20, ge=1, le=MOST_AUDITED_K, description="Length of the lists.")


class ForUser(Dialled):
    user: Id = Field(description="The user's id as the log has it.")


class Batch(Dialled):
    """Lists for many users, or for people known only by items they touched: one of the two."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"oneOf": [{"required": ["users"]}, {"required": ["histories"]}]}
    )

    k: Annotated[int, BeforeValidator(_whole), Field(strict=False)] = Field(
        20, ge=1, le=MOST_K, description="Length of the lists."
    )
    users: list[AnyId] = Field(default=[], min_length=1, max_length=MOST_LISTS)
    histories: list[Annotated[list[AnyId], Field(min_length=1, max_length=MOST_HISTORY)]] = Field(
        default=[], min_length=1, max_length=MOST_LISTS, description="Each a list of item ids."
    )


class ForItem(BaseModel):
    model_config = ConfigDict(extra="forbid")

    item: Id = Field(description="The item's id as the log has it.")
    k: int = Field(20, ge=1, le=MOST_K)
    item_strength: Strength | None = None


class OfUser(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: Id


class Search(BaseModel):
    model_config = ConfigDict(extra="forbid")

    search: str = Field("", max_length=256, description="The beginning of an id.")


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    detail: str = Field(description="One sentence: what must hold, what was got.")


class Entry(BaseModel):
    item: int | str
    score: float
    name: str | None = Field(None, description="Where the server was given a table of names.")


class Recommended(BaseModel):
    user: int | str | None = Field(description="null for a history.")
    fallback: Literal["popular"] | None = Field(
        description="Said where the user is unknown: the list is that of the tuned strengths, whatever was asked for."
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


class History(BaseModel):
    user: int | str
    items: list[Touched]


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
    names: int | None = Field(description="How many items have a name; null without a table of names.")
    unknown: Literal["popular", "404"]
    failed_reload: str | None


class Audited(AtStrengths):
    """As `counterpop audit RUN --json`, of the lists at these strengths."""

    model_config = ConfigDict(extra="allow")

    run: str
    users: int
    items: int
    verdict: dict[str, str]
    definitions: dict[str, dict[str, str]]


class Health(BaseModel):
    status: Literal["ok"]


class Measured(BaseModel):
    """Every metric at every pair of stops: values[name][item stop][user stop]."""

    version: int
    k: int
    users: int
    of_users: int
    step: float
    tuned: list[float] = Field(min_length=2, max_length=2)
    item_strengths: list[float]
    user_strengths: list[float]
    values: dict[str, list[list[float]]]
    groups: list[dict[str, Any]]
