"""Tables I and II: how unevenly interactions are distributed, and what the data sets hold."""

from __future__ import annotations

from typing import Any

import numpy as np

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.datasets import TITLES, observed
from counterpop.paper.results import Claim, Item, Table, head_counts
from counterpop.paper.runs import Bench


def make_table1(bench: Bench) -> Item:
    """Popular and unpopular items, active and inactive users, and how often each meets the other."""
    rows: list[dict[str, Any]] = []
    claims = []
    for name in (name for name in published.DATASETS if name in bench.paths):
        log = observed(bench.full(name))
        popular, active = cp.head(log.item_counts), cp.head(log.user_counts)
        for side, mask, counts, other in (
            ("item", popular, log.item_counts, active[log.user_ix]),
            ("user", active, log.user_counts, popular[log.item_ix]),
        ):
            own = mask[getattr(log, f"{side}_ix")]
            for label, members, mine in (
                ("popular" if side == "item" else "active", mask, own),
                ("unpopular" if side == "item" else "inactive", ~mask, ~own),
            ):
                number = max(1, int(members.sum()))
                rows.append(
                    {
                        "dataset": name,
                        "group": f"{label} {side}s",
                        "number": int(members.sum()),
                        "of": len(members),
                        "share": float(members.mean()),
                        "mean_count": float(counts[members].mean()) if members.any() else None,
                        "mean_with_head": float((mine & other).sum() / number),
                        "mean_with_rest": float((mine & ~other).sum() / number),
                    }
                )
        claims += _check_heads(name, log)
    table = Table(
        "Popular items and active users: the largest ones that together hold at most 80 % of the interactions",
        ("Data set", "Group", "Number", "Of", "Share", "Interactions each", "with active / popular", "with the rest"),
        [[TITLES[r["dataset"]], *list(r.values())[1:]] for r in rows],
        (
            "Counted in the observed part of train, without pairs drawn by intervention. The last two columns split "
            "an item's interactions by active and inactive users, and a user's by popular and unpopular items.",
        ),
    )
    lead = "How few items hold most of the interactions, and how large their share of a user's history is."
    return Item(
        "table1", "Table I: unbalanced interactions", lead, (table,), (), tuple(claims), tuple(rows), _absent(bench)
    )


def _check_heads(name: str, log: cp.Interactions) -> list[Claim]:
    if name not in published.POPULAR:
        return []
    ours = head_counts(log.item_counts), head_counts(log.user_counts)
    theirs = published.POPULAR[name], published.ACTIVE[name]
    text = "{:,} of {:,} items are popular and {:,} of {:,} users active"
    return [
        Claim(
            f"{TITLES[name]}: {text.format(*theirs[0], *theirs[1])}.",
            "confirmed" if ours == theirs else "not seen",
            f"In our data {text.format(*ours[0], *ours[1])}.",
        )
    ]


def make_table2(bench: Bench) -> Item:
    """Users, items, pairs and parts of every data set."""
    rows: list[dict[str, Any]] = []
    claims = []
    for name in (name for name in published.DATASETS if name in bench.paths):
        split = bench.full(name)
        known, manifest = split.development, split.manifest
        pairs = len(known.refit_train()) + len(split.test)
        intervened = 0 if known.intervened is None else int(np.sum(known.intervened))
        sizes = known.train.n_users, known.train.n_items, pairs
        row = {"dataset": name, "users": sizes[0], "items": sizes[1], "pairs": pairs}
        row |= {"density": pairs / (sizes[0] * sizes[1]), "train": len(known.train), "of_it_intervened": intervened}
        row |= {"valid": len(known.valid), "test": len(split.test)}
        row |= {"validation": manifest.drawn}
        row |= {f"gini_{part}": manifest.gini[part] for part in ("train", "test")}
        rows.append(row | {"untrained_items": manifest.untrained_items})
        text = "{:,} users, {:,} items, {:,} interactions"
        claims.append(
            Claim(
                f"{TITLES[name]} has {text.format(*published.SIZES[name])}.",
                "confirmed" if sizes == published.SIZES[name] else "not seen",
                f"Our data have {text.format(*sizes)}.",
            )
        )
    columns = ["Data set", "Users", "Items", "Pairs", "Density", "Train", "of it intervened", "Validation", "Test"]
    columns += ["Validation part", "Gini of train", "Gini of test", "Held-out items without a train pair"]
    table = Table("Data sets", tuple(columns), [[TITLES[r["dataset"]], *list(r.values())[1:]] for r in rows])
    lead = "The data sets as they are split. The lower the Gini of test, the more evenly its items are represented."
    return Item("table2", "Table II: data sets", lead, (table,), (), tuple(claims), tuple(rows), _absent(bench))


def _absent(bench: Bench) -> tuple[str, ...]:
    names = [TITLES[name] for name in published.DATASETS if name not in bench.paths]
    return (f"{', '.join(names)}: not in the data folder.",) if names else ()
