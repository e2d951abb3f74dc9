"""counterpop debias"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from counterpop import artifacts
from counterpop.adapters import Vectors
from counterpop.adapters.files import read_ids, read_model, read_vectors
from counterpop.adjustment import adjust
from counterpop.cli import shell
from counterpop.cli.options import floor_option, k_option, seed_option, target_option
from counterpop.cli.progress import output, working
from counterpop.debiasing import Debiasing, Effect, debias
from counterpop.drift import Drift, check_drift
from counterpop.errors import InputError
from counterpop.readers import read_interactions
from counterpop.reporting import write_debiasing
from counterpop.reporting.tables import format_figure, format_interval, format_p
from counterpop.tuning import Target

SOURCES = ("user_vectors", "item_vectors", "user_ids", "item_ids", "model")


@click.command(
    epilog="""\b
Example: counterpop debias --user-vectors users.npy --item-vectors items.npy \\
             --interactions log.parquet --holdout later.parquet --out FIX
A model, a floor:
         counterpop debias --model als.npz --interactions log.csv --floor ndcg=0.95 --out FIX
Does it still fit?
         counterpop debias --check FIX --interactions new.parquet
"""
)
@click.option("--user-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--item-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--model", type=click.Path(), help="Instead: implicit's npz, Spark's ALSModel, RecBole's pth.")
@click.option("--user-ids", type=click.Path(), help="Ids of the user vectors' rows: npy, or one a line.")
@click.option("--item-ids", type=click.Path(), help="Ids of the item vectors' rows: npy, or one a line.")
@click.option("--interactions", type=click.Path(), required=True, help="The log the vectors were trained on.")
@click.option("--holdout", type=click.Path(), help="A later log: strengths are chosen and proven on it.")
@click.option("--user", default="user", show_default=True, help="Column of user ids.")
@click.option("--item", default="item", show_default=True, help="Column of item ids.")
@target_option("held-out pairs that hold every item about equally often")
@floor_option("ordinary held-out pairs")
@k_option
@click.option("--drop-unknown", is_flag=True, help="Leave out ids of the logs that have no vector.")
@click.option("--write-vectors", is_flag=True, help="Write the adjusted vectors as well, with their ids.")
@click.option(
    "--check",
    type=click.Path(),
    metavar="FIX",
    help="Tell whether an adjustment still fits --interactions; vectors are those it was made from.",
)
@seed_option("Seed of all random draws.")
@click.option("--out", type=click.Path(), help="Folder for the adjustment and its report.")
@shell
def command(
    interactions: str,
    holdout: str | None,
    user: str,
    item: str,
    target: Target,
    floor: dict[str, float],
    k: int,
    drop_unknown: bool,
    write_vectors: bool,
    check: str | None,
    seed: int,
    out: str | None,
    quiet: bool,
    **sources: str | None,
) -> dict[str, Any]:
    """Find and prove an adjustment of vectors that any model was trained to.

    Writes two directions and two strengths, the whole trade-off and a report; send `query(u)` to the index
    you have. Where no gain is proven it says so and the strengths are 0. Vector files hold a matrix
    `vectors` and, optionally, `ids`; a matrix without ids is in the order of the log's sorted ids.
    """
    if (check is None) == (out is None):
        raise click.UsageError("give --out for the new adjustment, or --check for one to look at")
    choice: dict[str, Any] = {"target": target, "floor": floor, "k": k, "seed": seed}
    columns = {"user": user, "item": item}
    if check is not None:
        if holdout or write_vectors:
            raise click.UsageError("--check takes the new log as --interactions, and writes nothing")
        source = click.get_current_context().get_parameter_source
        asked = {n: v for n, v in (choice | columns).items() if source(n) != ParameterSource.DEFAULT}
        drift = _check(check, sources, interactions, asked, drop_unknown)
        if not quiet:
            _tell_drift(drift)
        return {"check": check, **drift.to_json()}
    assert out is not None
    artifacts.check_target(out, "adjustment")
    with working("reading"):
        vectors = _read(sources)
        log = read_interactions(interactions, user=user, item=item)
        later = read_interactions(holdout, user=user, item=item) if holdout else None
    with working("matching vectors and log") as report:
        found = debias(**vectors, interactions=log, holdout=later, drop_unknown=drop_unknown, report=report, **choice)
    with working("writing"):
        made_from = {
            name: str(Path(path).resolve()) for name, path in (sources | {"interactions": interactions}).items() if path
        }
        adjusted = adjust(found.embeddings, found) if write_vectors and found.embeddings else None
        artifacts.save_adjustment(found, out, adjusted, made_from | columns | choice)
        write_debiasing(found, Path(out) / "report.html", Path(sources["model"] or interactions).name)
    if not quiet:
        _tell(found, out)
    return {"out": out, **found.to_json()}


def _read(sources: dict[str, str | None]) -> Vectors:
    """The vectors of a model, or of two files."""
    user_ids, item_ids = (read_ids(path) if (path := sources[f"{s}_ids"]) else None for s in ("user", "item"))
    sides = sources["user_vectors"], sources["item_vectors"]
    if any(sides) == (sources["model"] is not None) or (any(sides) and None in sides):
        raise click.UsageError("give --user-vectors and --item-vectors, or --model")
    if sources["model"] is not None:
        return read_model(sources["model"], user_ids=user_ids, item_ids=item_ids)
    (users, own_users), (items, own_items) = (read_vectors(str(path)) for path in sides)
    return Vectors(
        user_vectors=users,
        item_vectors=items,
        user_ids=own_users if user_ids is None else user_ids,
        item_ids=own_items if item_ids is None else item_ids,
    )


def _check(folder: str, sources: dict[str, str | None], new: str, asked: dict[str, Any], drop_unknown: bool) -> Drift:
    """The adjustment of a folder on the vectors it was made from (or others that are given) and a new log.

    Columns, target, floor and k are those it was made with, unless others are asked for.
    """
    adjustment, origin = artifacts.load_adjustment(folder), artifacts.origin_of(folder)
    kept = ("user", "item", "target", "floor", "k", "seed")
    choice = {"user": "user", "item": "item"} | {n: origin[n] for n in kept if n in origin} | asked
    if not any(sources.values()):
        sources = {name: origin.get(name) for name in SOURCES}
        missing = [path for path in sources.values() if path and not Path(path).exists()]
        if missing or not any(sources.values()):
            raise InputError(
                f"{folder} must be checked on vectors, but those it was made from are not there "
                f"({', '.join(missing) or 'none are known'}); give --user-vectors and --item-vectors, or "
                "--model"
            )
    with working("reading"):
        vectors = _read(sources)
        log = read_interactions(new, user=choice.pop("user"), item=choice.pop("item"))
        old = origin.get("interactions")
        before = None
        if old and Path(old).exists() and Path(old).resolve() != Path(new).resolve():
            before = read_interactions(old, user=origin["user"], item=origin["item"])
    with working("looking for anything better"):
        return check_drift(
            adjustment, **vectors, interactions=log, trained_on=before, drop_unknown=drop_unknown, **choice
        )


def _line(effect: Effect, metric: str) -> str:
    """A metric before and after, with its intervals and what the difference amounts to."""
    sides = [
        f"{format_figure(metric, getattr(m, metric))} ({format_interval(metric, *m.intervals[metric])})"
        for m in (effect.plain, effect.adjusted)
    ]
    p = f", {format_p(effect.comparison[metric]['p_value'])}" if metric in effect.comparison else ""
    return f"{sides[0]} -> {sides[1]}{p}"


def _tell(found: Debiasing, out: str) -> None:
    for name, effect in (("Uniform", found.uniform), ("Ordinary", found.ordinary)):
        users = f"{len(effect.plain.users):,} users"
        output.print(f"{name} held-out pairs, {users}: {found.target} {_line(effect, found.target)}")
    if found.sample is not None:
        output.print(f"With so many items, a random sample of at most {found.sample:,} users chose and as many proved.")
    if found.in_sample:
        output.print("The model has seen these pairs: the figures are too high; --holdout gives true ones.")
    if not found.gained:
        proof = found.uniform.proof(found.target)
        verdict = f"A gain is not proven ({proof})" if found.unproven else "Nothing is gained"
        output.print(
            f"{verdict} at the best strengths tried ({found.tried[0]}, {found.tried[1]}): leave the vectors "
            f"as they are. Wrote {out} with strengths 0, and {out}/report.html."
        )
        return
    if found.price:
        output.print(found.price)
    if found.segments is not None and found.by_segment is not None:
        output.print(
            f"Strengths by {found.segments.by} do better still: {found.target} {_line(found.by_segment, found.target)}"
        )
    strengths = f"Item strength {found.item_strength}, user strength {found.user_strength}"
    output.print(f"{strengths}. Wrote {out} and {out}/report.html.")


def _tell_drift(drift: Drift) -> None:
    output.print(
        f"Directions against those of the new data: cosine {drift.item_cosine:.3f} of items, "
        f"{drift.user_cosine:.3f} of users. Strengths {drift.stored[0]} / {drift.stored[1]}; "
        f"the new data would choose {drift.best[0]} / {drift.best[1]}."
    )
    for name, effect in (
        ("plain -> this adjustment", drift.against_plain),
        ("this adjustment -> made anew", drift.renewed),
    ):
        output.print(f"{name}, {len(effect.plain.users):,} users: {drift.target} {_line(effect, drift.target)}")
    if drift.in_sample:
        output.print("The pairs are of the new log itself: if the model has seen them, figures are too high.")
    output.print(drift.sentence)
