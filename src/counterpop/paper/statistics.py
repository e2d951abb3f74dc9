"""Tables I and II: how unevenly interactions are distributed, and what the data sets hold."""

from __future__ import annotations

from typing import Any

import numpy as np

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.datasets import TITLES, observed
from counterpop.paper.results import FAR, Claim, Item, Table, Verdict, exact, judge_cases
from counterpop.paper.runs import Bench

GROUPS = {
    "user": ("all users", "active users", "inactive users"),
    "item": ("all items", "popular items", "unpopular items"),
}
EVEN = 0.1  # a Gini that we call even


def make_table1(bench: Bench) -> Item:
    """Popular and unpopular items, active and inactive users, and how often each meets the other."""
    rows: list[dict[str, Any]] = []
    for name in (name for name in published.DATASETS if name in bench.paths):
        log = observed(bench.full(name))
        head = {"item": cp.head(log.item_counts), "user": cp.head(log.user_counts)}
        drawn = draw_negatives(log)
        for side, other in (("user", "item"), ("item", "user")):
            mine, theirs = (head[one][getattr(log, f"{one}_ix")] for one in (side, other))
            negatives = drawn if side == "user" else drawn.T  # (head or rest of this side, head or rest of the other)
            for group, members, own, at in zip(
                GROUPS[side],
                (np.ones_like(head[side]), head[side], ~head[side]),
                (np.ones_like(mine), mine, ~mine),
                ((0, 1), (0,), (1,)),
                strict=True,
            ):
                number = max(1, int(members.sum()))
                row = {"dataset": name, "group": group, "number": int(members.sum()), "share": float(members.mean())}
                row |= {"with_head": float((own & theirs).sum() / number)}
                row |= {"with_rest": float((own & ~theirs).sum() / number)}
                row |= {"negatives_head": float(negatives[list(at), 0].sum() / number)}
                row |= {"negatives_rest": float(negatives[list(at), 1].sum() / number)}
                printed = published.UNBALANCED[group] if name == "ml10m" else (None, None, None)
                rows.append(
                    row | dict(zip(("published_number", "published_head", "published_rest"), printed, strict=True))
                )
    table = Table(
        "Popular items and active users: the largest ones that together hold at most 80 % of the interactions",
        (
            *("Data set", "Group", "Number", "Share", "with popular / active", "with the rest"),
            *("negatives, popular / active", "negatives, the rest", "Number, published"),
            *("with popular / active, published", "with the rest, published"),
        ),
        [[TITLES[r["dataset"]], *("" if value is None else value for value in list(r.values())[1:])] for r in rows],
        (
            "Counted in the observed part of train, without pairs drawn by intervention; means over the members of a "
            "group. A user's interactions are split by popular and other items, an item's by active and other users. "
            "Negatives: how many an epoch draws on average, one uniform negative for each interaction.",
        ),
    )
    lead = "How few items hold most of the interactions, and how large their share of a user's history is."
    claims = tuple(_unbalanced_claims(rows))
    return Item("table1", "Table I: unbalanced interactions", lead, (table,), (), claims, tuple(rows), _absent(bench))


def draw_negatives(log: cp.Interactions) -> np.ndarray:
    """(2, 2) expected negatives of an epoch: of active and other users, among popular and other items.

    Each interaction of a user draws one of the items that the user has not touched, all equally likely.
    """
    popular, active = cp.head(log.item_counts), cp.head(log.user_counts)
    touched = np.bincount(log.user_ix, weights=popular[log.item_ix], minlength=log.n_users)
    unseen = np.maximum(1, log.n_items - log.user_counts)
    share = (popular.sum() - touched) / unseen  # of a user's negatives that are popular
    expected = np.stack([log.user_counts * share, log.user_counts * (1 - share)], axis=1)
    return np.stack([expected[active].sum(axis=0), expected[~active].sum(axis=0)])


def _unbalanced_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    printed = [row for row in rows if row["published_number"] is not None]
    claims = []
    if printed:
        same = all(
            row["number"] == row["published_number"]
            and all(_agree(row[f"with_{part}"], row[f"published_{part}"]) for part in ("head", "rest"))
            for row in printed
        )
        text = "ML-10M has 328 popular items of 4,819 and 20,801 active users of 37,962, with the counts of Table I."
        shown = "; ".join(
            f"{r['group']} {r['number']:,} ({r['with_head']:.1f} and {r['with_rest']:.1f}, published "
            f"{r['published_head']:,} and {r['published_rest']:,})"
            for r in printed
        )
        evidence = f"Here: {shown}. Equal counts at the edge of a group may fall on either side."
        claims.append(exact("III, Table I", text, same, evidence))
    popular = {row["dataset"]: row["share"] for row in rows if row["group"] == "popular items"}
    held = sum(share < 0.2 for share in popular.values())
    text = "In many data sets, fewer than 20 % of the items have 80 % of the interactions."
    shown = ", ".join(f"{TITLES[name]} {share:.1%}" for name, share in popular.items())
    claims.append(
        Claim("III", text, judge_cases(held, len(popular) - held, len(popular), most=True), f"Share of items: {shown}.")
    )
    for side, text in (
        ("item", "Items of every group are interacted with by active users far more often than by others."),
        ("user", "Users of every group interact with popular items far more often than with others."),
    ):
        claims.append(_ratio_claim("III", text, rows, side, "with_head", "with_rest"))
    for side, text in (
        ("item", "With uniform negatives, items get far fewer of them from active users than from others."),
        ("user", "With uniform negatives, users get far fewer popular items than others as negatives."),
    ):
        claims.append(_ratio_claim("III", text, rows, side, "negatives_rest", "negatives_head"))
    pairs = [
        (row["with_head"] + row["with_rest"], row["negatives_head"] + row["negatives_rest"])
        for row in rows
        if row["group"] == "popular items"
    ]
    held = sum(seen > negative for seen, negative in pairs)
    shown = "; ".join(f"{seen:,.1f} and {negative:,.1f}" for seen, negative in pairs)
    text = "A popular item is updated more often as a seen item than as a negative."
    evidence = f"Times per epoch, a popular item on average, by data set: {shown}."
    return [*claims, Claim("II", text, judge_cases(held, len(pairs) - held, len(pairs)), evidence)]


def _agree(ours: float, printed: float) -> bool:
    """Whether two means agree to the printed digit, or to 0.2 %."""
    return abs(ours - printed) <= max(0.1, 0.002 * printed)


def _ratio_claim(section: str, text: str, rows: list[dict[str, Any]], side: str, large: str, small: str) -> Claim:
    ratios = {
        f"{TITLES[row['dataset']]}, {row['group']}": row[large] / max(row[small], 1e-9)
        for row in rows
        if row["group"] in GROUPS[side]
    }
    verdict = judge_far(list(ratios.values()))
    shown = "; ".join(f"{case} {ratio:.2g}" for case, ratio in ratios.items())
    evidence = f"Exact counts, ratio of the larger to the smaller as claimed (we read: at least {FAR:g}): {shown}."
    if (side, small) == ("item", "negatives_head"):
        sizes = {(row["dataset"], row["group"]): row["number"] for row in rows}
        names = {dataset: sizes[dataset, "inactive users"] / sizes[dataset, "active users"] for dataset, _ in sizes}
        by_user = "; ".join(f"{TITLES[name]} {ratio:.2g}" for name, ratio in names.items())
        evidence += f" This is with one negative for each interaction; where users are drawn first: {by_user}."
    return Claim(section, text, verdict, evidence)


def judge_far(ratios: list[float]) -> Verdict:
    """The verdict on a claim that one count is far above another in every case; counts have no noise.

    >>> judge_far([4.0, 3.0]), judge_far([4.0, 1.2]), judge_far([4.0, 0.8, 0.7]), judge_far([])
    ('confirmed', 'weaker', 'not seen', 'cannot tell')
    """
    above = sum(ratio > 1 for ratio in ratios)
    verdict = judge_cases(above, len(ratios) - above, len(ratios))
    return "weaker" if verdict == "confirmed" and min(ratios) < FAR else verdict


def make_table2(bench: Bench) -> Item:
    """Users, items, pairs and parts of every data set."""
    rows: list[dict[str, Any]] = []
    for name in (name for name in published.DATASETS if name in bench.paths):
        split = bench.full(name)
        known, manifest = split.development, split.manifest
        pairs = len(known.refit_train()) + len(split.test)
        intervened = 0 if known.intervened is None else int(np.sum(known.intervened))
        sizes = known.train.n_users, known.train.n_items, pairs
        row = {"dataset": name, "users": sizes[0], "items": sizes[1], "pairs": pairs}
        row |= {"density": pairs / (sizes[0] * sizes[1]), "published_density": published.SIZES[name][3]}
        row |= {"train": len(known.train), "of_it_intervened": intervened}
        row |= {"valid": len(known.valid), "test": len(split.test)}
        row |= {"validation": manifest.drawn}
        row |= {f"gini_{part}": manifest.gini[part] for part in ("train", "test")}
        rows.append(row | {"untrained_items": manifest.untrained_items})
    columns = ["Data set", "Users", "Items", "Pairs", "Density", "published", "Train", "of it intervened", "Validation"]
    columns += ["Test", "Validation part", "Gini of train", "Gini of test", "Held-out items without a train pair"]
    note = "The paper's column of densities is headed sparsity."
    table = Table("Data sets", tuple(columns), [[TITLES[r["dataset"]], *list(r.values())[1:]] for r in rows], (note,))
    lead = "The data sets as they are split. The lower the Gini of test, the more evenly its items are represented."
    return Item(
        "table2",
        "Table II: data sets",
        lead,
        (table,),
        (),
        (_size_claim(rows), *_part_claims(rows)),
        tuple(rows),
        _absent(bench),
    )


def _size_claim(rows: list[dict[str, Any]]) -> Claim:
    text = "{:,} users, {:,} items, {:,} interactions"
    own = {row["dataset"]: (row["users"], row["items"], row["pairs"]) for row in rows}
    same = sum(sizes == published.SIZES[name][:3] for name, sizes in own.items())
    shown = "; ".join(
        f"{TITLES[name]} {text.format(*sizes)} (published {text.format(*published.SIZES[name][:3])})"
        for name, sizes in own.items()
    )
    verdict = judge_cases(same, len(own) - same, len(own))
    return Claim("V-A, Table II", "The data sets have the sizes of Table II.", verdict, f"Ours: {shown}.")


def _part_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """The shares of train, validation and test, and whether test is drawn more evenly than train."""
    same, shown = 0, []
    for row in rows:
        carved = row["validation"].startswith("carved")
        parts = (row["train"] + (row["valid"] if carved else 0), 0 if carved else row["valid"], row["test"])
        shares = [100 * part / row["pairs"] for part in parts]
        printed = published.PARTS[row["dataset"]]
        same += all(abs(share - theirs) < 1 for share, theirs in zip(shares, printed, strict=True))
        ours, theirs = (" / ".join(f"{share:.0f}" for share in one) for one in (shares, printed))
        shown.append(f"{TITLES[row['dataset']]} {ours} (the paper: {theirs})")
    evidence = (
        f"Train / validation / test of the files that DICE and MACR published, in per cent: {'; '.join(shown)}. The "
        "paper quotes results on these files, so we use their parts; where they have no validation part, one is carved "
        "out of train and the model is trained again on all of train."
    )
    text = "The parts are 60 / 10 / 30 % on ML-10M and Netflix and 80 / 10 / 10 % on Adressa and Gowalla."
    claims = [Claim("V-A", text, judge_cases(same, len(rows) - same, len(rows)), evidence)]
    even = {TITLES[row["dataset"]]: (row["gini_test"], row["gini_train"]) for row in rows}
    shown = [f"{name} {test:.2f} and {train:.2f}" for name, (test, train) in even.items()]
    equal = bool(even) and all(test <= EVEN for test, _ in even.values())
    better = bool(even) and all(test < train for test, train in even.values())
    verdict: Verdict = "confirmed" if equal else "weaker" if better else "not seen"
    text = "Test gives every item the same chance, while train keeps the bias."
    evidence = f"Gini of item counts, test and train (0 is even): {'; '.join(shown)}."
    return [*claims, Claim("V-A", text, verdict, evidence)]


def _absent(bench: Bench) -> tuple[str, ...]:
    names = [TITLES[name] for name in published.DATASETS if name not in bench.paths]
    return (f"{', '.join(names)}: not in the data folder.",) if names else ()
