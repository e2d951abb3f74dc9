"""counterpop debias"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from counterpop import artifacts
from counterpop.adapters.files import read_vectors
from counterpop.adjustment import adjust
from counterpop.cli import shell
from counterpop.cli.progress import output, working
from counterpop.cli.tune import read_floors
from counterpop.debiasing import debias
from counterpop.readers import read_interactions
from counterpop.tuning import Target


@click.command(
    epilog="Example: counterpop debias --user-vectors users.npy --item-vectors items.npy "
    "--interactions log.parquet --out FIX"
)
@click.option("--user-vectors", type=click.Path(), required=True, help="npy, npz, safetensors or parquet.")
@click.option("--item-vectors", type=click.Path(), required=True, help="npy, npz, safetensors or parquet.")
@click.option("--interactions", type=click.Path(), required=True, help="The log the vectors were trained on.")
@click.option("--holdout", type=click.Path(), help="A later log: strengths are chosen and proven on it.")
@click.option("--user", default="user", show_default=True, help="Column of user ids.")
@click.option("--item", default="item", show_default=True, help="Column of item ids.")
@click.option("--target", type=click.Choice(get_args(Target)), default="recall", show_default=True)
@click.option(
    "--floor",
    multiple=True,
    callback=read_floors,
    metavar="METRIC=SHARE",
    help="Keep at least this share of the plain model's metric on ordinary held-out pairs.",
)
@click.option("--k", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists.")
@click.option("--drop-unknown", is_flag=True, help="Leave out ids of the logs that have no vector.")
@click.option("--write-vectors", is_flag=True, help="Write the adjusted vectors as well, with their ids.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(), required=True, help="Folder for the adjustment.")
@shell
def command(
    user_vectors: str, item_vectors: str, interactions: str, holdout: str | None, user: str, item: str,
    target: Target, floor: dict[str, float], k: int, drop_unknown: bool, write_vectors: bool, seed: int,
    out: str, quiet: bool,
) -> dict[str, Any]:  # fmt: skip
    """Find and prove an adjustment of vectors that any model was trained to.

    Writes two directions and two strengths; send `query(u)` to the index you have. Where nothing is gained it
    says so and the strengths are 0. Vector files hold a matrix `vectors` and, optionally, `ids`; a bare npy
    matrix is in the order of the log's sorted ids.
    """
    artifacts.check_target(out, "adjustment")
    with working("reading"):
        (users, user_ids), (items, item_ids) = read_vectors(user_vectors), read_vectors(item_vectors)
        log = read_interactions(interactions, user=user, item=item)
        later = read_interactions(holdout, user=user, item=item) if holdout else None
    with working("choosing strengths and measuring their effect"):
        found = debias(
            users, items, log, holdout=later, user_ids=user_ids, item_ids=item_ids, drop_unknown=drop_unknown,
            target=target, floor=floor, k=k, seed=seed,
        )  # fmt: skip
    adjusted = adjust(found.embeddings, found) if write_vectors and found.embeddings else None
    artifacts.save_adjustment(found, out, adjusted)
    result = {
        "out": out, "gained": found.gained, "in_sample": found.in_sample, "target": target,
        "item_strength": found.item_strength, "user_strength": found.user_strength, "tried": found.tried,
        "uniform": found.uniform.to_json(), "ordinary": found.ordinary.to_json(),
    }  # fmt: skip
    if not quiet:
        for name, effect in (("uniform", found.uniform), ("ordinary", found.ordinary)):
            plain, after = effect.plain.to_json()[target], effect.adjusted.to_json()[target]
            users_shown = f"{len(effect.plain.users):,} users"
            output.print(f"{name} held-out pairs, {users_shown}: {target} {plain:.4f} -> {after:.4f}")
        if found.in_sample:
            output.print(
                "The model has seen these pairs: the figures are too high; --holdout gives true ones."
            )
        if found.gained:
            strengths = f"item strength {found.item_strength}, user strength {found.user_strength}"
            output.print(f"{strengths}. Wrote {out}.")
        else:
            output.print(
                f"Nothing is gained at the best strengths tried ({found.tried[0]}, {found.tried[1]}): "
                f"leave the vectors as they are. Wrote {Path(out)} with strengths 0."
            )
    return result
