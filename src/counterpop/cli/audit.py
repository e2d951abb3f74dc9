"""counterpop audit"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from counterpop import artifacts
from counterpop.adapters.files import read_vectors
from counterpop.auditing import Audit, audit, audit_model
from counterpop.cli import shell
from counterpop.cli.progress import output, working
from counterpop.debiasing import as_embeddings
from counterpop.errors import InputError
from counterpop.interactions import Interactions, restrict
from counterpop.readers import read_interactions, read_recommendations
from counterpop.recommender import Recommender
from counterpop.reporting import audit_table, write_audit

K = 20  # of a model's lists
GO_WITH = {  # what would be ignored without it
    "recommendations": ("list_user", "list_item", "rank", "score", "keep_unknown"),
    "item_vectors": ("drop_unknown",),
    "interactions": ("user", "item"),
}


@click.command(
    epilog="Example: counterpop audit RUN --html audit.html, or for any system "
    "counterpop audit --recommendations lists.csv --interactions log.parquet --html audit.html"
)
@click.argument("run", type=click.Path(), required=False)
@click.option(
    "--recommendations", type=click.Path(), help="Lists of any system: user, item, and optionally rank or score."
)
@click.option("--user-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--item-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--interactions", type=click.Path(), help="The log behind the lists or the vectors.")
@click.option("--holdout", type=click.Path(), help="A later log: what users liked, for equal opportunity.")
@click.option("--user", default="user", show_default=True, help="Column of user ids in the logs.")
@click.option("--item", default="item", show_default=True, help="Column of item ids in the logs.")
@click.option("--list-user", help="Column of user ids in the lists. [default: that of the logs]")
@click.option("--list-item", help="Column of item ids in the lists. [default: that of the logs]")
@click.option("--rank", help="Column that orders the lists, 1 best. [default: rank, if there is one]")
@click.option("--score", help="Column that orders the lists, high best. [default: score, if there is one]")
@click.option("--k", type=click.IntRange(min=1), help="Length of the lists. [default: 20; given lists: the longest]")
@click.option("--keep-unknown", is_flag=True, help="Count ids that the log lacks as without interactions.")
@click.option("--drop-unknown", is_flag=True, help="Leave out ids of the log that have no vector.")
@click.option("--html", type=click.Path(), help="Write one self-contained page here.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Takes no part: the figures are exact.")
@shell
def command(
    run: str | None,
    recommendations: str | None,
    user_vectors: str | None,
    item_vectors: str | None,
    interactions: str | None,
    holdout: str | None,
    user: str,
    item: str,
    list_user: str | None,
    list_item: str | None,
    rank: str | None,
    score: str | None,
    k: int | None,
    keep_unknown: bool,
    drop_unknown: bool,
    html: str | None,
    seed: int,
    quiet: bool,
) -> dict[str, Any]:
    """Say what recommendations expose: of a run, of vectors and a log, or of any system's lists and a log.

    Popularity lift, tail share, coverage, Gini, exposure by group of items and segment of users,
    miscalibration, ARP, APLT, ACLT, PopRSP and PopREO, each with its definition, and a verdict.
    A run is audited as trained and as adjusted, for all users of its train part.
    """
    vectors = (user_vectors, item_vectors) if user_vectors and item_vectors else None
    given = (run, recommendations, user_vectors or item_vectors)
    if sum(one is not None for one in given) != 1 or (given[2] and vectors is None):
        raise click.UsageError("give a RUN, or --recommendations, or --user-vectors with --item-vectors")
    if (run is None) != (interactions is not None):
        raise click.UsageError("--interactions goes with lists and vectors; a run has its own log")
    context = click.get_current_context()
    for lead, names in GO_WITH.items():
        for extra in names:
            if not context.params[lead] and context.get_parameter_source(extra) != ParameterSource.DEFAULT:
                raise click.UsageError(f"{_option(extra)} goes with {_option(lead)} only; leave it out")
    if run is not None and holdout is not None:
        raise click.UsageError("--holdout does not go with a run, which has its own test part")
    with working("reading and measuring"):
        if run is not None:
            audits, told = audit_run(run, k or K)
        else:
            log = read_interactions(interactions, user=user, item=item)
            later = read_interactions(holdout, user=user, item=item) if holdout else None
            if vectors is not None:
                one = audit_vectors(*vectors, log, later, k or K, drop_unknown)
                told = {"user_vectors": user_vectors, "item_vectors": item_vectors}
            else:
                found = read_recommendations(
                    recommendations,
                    log,
                    user=list_user or user,
                    item=list_item or item,
                    rank=rank,
                    score=score,
                    k=k,
                    keep_unknown=keep_unknown,
                )
                held, lost = match(later, found.log)
                notes = {**found.notes, "unknown_held_out": lost}
                one = audit(found.lists, found.users, found.log, held=held, notes=notes)
                told = {"recommendations": recommendations, "order": found.order}
            audits = {Path(recommendations or str(item_vectors)).stem: one}
    if html:
        Path(html).parent.mkdir(parents=True, exist_ok=True)
        write_audit(audits, Path(html))
        told["html"] = html
    if not quiet:
        for name, one in audits.items():
            output.print(f"{name}: {one.verdict.text}", *one.sentences, "", sep="\n", soft_wrap=False)
        output.print(audit_table(audits), soft_wrap=False)
        if html:
            output.print(f"Wrote {html} ({Path(html).stat().st_size / 1e6:.1f} MB).")
    plain, *_ = dicts = [one.as_dict() for one in audits.values()]
    return told | dicts[-1] | ({"plain": plain} if run is not None else {})


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def audit_run(path: str | Path, k: int = K) -> tuple[dict[str, Audit], dict[str, Any]]:
    """The final model of a run folder as trained and, where it is adjusted, as adjusted."""
    saved, split = artifacts.load_run(path), artifacts.load_split(path)
    recommender = artifacts.recommender_of(saved, split.development)
    log = artifacts.trained_on(saved, split.development)
    strengths = {"item_strength": recommender.item_strength, "user_strength": recommender.user_strength}
    ways = {"as trained": recommender.with_strengths(0.0, 0.0)}
    if any(strengths.values()):
        ways["adjusted"] = recommender
    audits = {name: audit_model(way, log, k, held=split.test, ledger=saved.run.ledger) for name, way in ways.items()}
    return audits, {"run": str(path), **strengths}


def audit_vectors(
    user_vectors: str, item_vectors: str, log: Interactions, later: Interactions | None, k: int, drop: bool
) -> Audit:
    """The lists that vectors give, what the log holds left out."""
    (users, user_ids), (items, item_ids) = read_vectors(user_vectors), read_vectors(item_vectors)
    vectors = as_embeddings(users, items, log, user_ids, item_ids)
    known = restrict(log, vectors.user_ids, vectors.item_ids)
    if len(known) < len(log) and not drop:
        raise InputError(
            f"every user and item of the log needs a vector, but {len(log) - len(known):,} of {len(log):,} "
            "rows hold one that has none; pass --drop-unknown to leave them out"
        )
    held, lost = match(later, known)
    axis = np.eye(1, vectors.dim, dtype=np.float32)[0]  # at strength 0 a direction takes no part
    notes = {"without_vector": len(log) - len(known), "unknown_held_out": lost}
    model = Recommender(axis, axis, 0.0, 0.0, embeddings=vectors, seen=known)
    return audit_model(model, known, k, held=held, notes=notes)


def match(later: Interactions | None, log: Interactions) -> tuple[Interactions | None, int]:
    """Held-out pairs in the positions of the log, and how many it cannot place."""
    if later is None:
        return None, 0
    held = restrict(later, log.user_ids, log.item_ids)
    return held, len(later) - len(held)
