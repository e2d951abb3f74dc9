"""The words of all pages, each with one meaning. Pages, the dashboard and docs/glossary.md print these sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from counterpop.auditing import DEFINITIONS, GROUP_RULE

METRICS = ("average_popularity", "tail_share", "coverage", "gini")
GLOSSARY: Mapping[str, str] = {
    "Plain": "The model as trained: nothing is removed.",
    "Adjusted": "The same model, not trained again, with part of what popularity adds to its scores removed.",
    "Popularity": "The number of interactions of an item in the log that the model was trained on.",
    "Popular items and tail": "With items sorted by falling popularity, popular items are the first ones whose running "
    "sum stays within 80 % of all interactions; the tail is the rest.",
    "Even pairs": "Held-out pairs of a user and an item that hold every item about equally often: they show what would "
    "be found if every item were shown equally often.",
    "Ordinary pairs": "Held-out pairs drawn from the log as it is, which favours popular items: they show what is "
    "found as traffic is today. After a refit, which trains on them, they are measured on the model before it, at the "
    "same strengths.",
    "Gain": "How much more the adjusted lists find on even pairs, usually as adjusted recall / plain recall − 1. Above "
    "0 is better.",
    "Price": "The share of recall on ordinary pairs that the adjusted lists lose: 1 − adjusted recall / plain recall. "
    "Above 0 it costs something; below 0 recall on ordinary pairs rises as well.",
    "Recall@k": "The share of a user’s held-out items that are among the k recommended ones, mean over users with at "
    "least one held-out item.",
    "Hit rate@k": "1 if any held-out item is among the k recommended ones, otherwise 0, mean over the same users.",
    "NDCG@k": "Like recall, but hits near the top count more: the sum of 1 / log2(rank + 1) over the hits, divided by "
    "that of a perfect list, mean over the same users.",
    **{DEFINITIONS[name].label: DEFINITIONS[name].text for name in METRICS},
    "Popularity groups": f"{GROUP_RULE} The recall of a group is hits in the group / held-out pairs in the group, over "
    "all users together.",
    "Directions": "The popular direction is the line along which item vectors differ by popularity; the conformity "
    "direction is the line along which user vectors differ by how much they follow popular items.",
    "Strengths": "How much of a direction is removed from the vectors: 0 is nothing, 1 is all of it, and above 1 it "
    "changes sign (v − strength (v · d) d for a unit vector d).",
    "Score": "What a list is sorted by: plain score = adjusted score + what is removed through items (popular "
    "direction) + what is removed through users (conformity direction).",
    "Frontier": "The pairs of strengths that no other pair beats in both gain and price.",
    "Named points": "Three points of the frontier: gain is the most gain at any price, balanced the most at a price of "
    "at most 5 % unless another limit was set, free the most without a significant loss.",
    "Proven": "A gain that a paired test finds significant on users on whom the strengths were not chosen, at a price "
    "that is kept.",
    "Points": "Differences between shares: from 10 % to 12 % is +2 points.",
    "Interval": "The range in which a number would lie in 95 of 100 cases with other users of the same kind, "
    "bootstrapped over users.",
    "p": "How often differences with random signs have a mean at least as far from zero (a paired randomisation test); "
    "below 0.05 we call a difference significant.",
    "Pull and push": "Summed over all training steps, pull is what raised an item as a positive example and push what "
    "lowered it as a negative one; the total is pull + push, where push is negative.",
}

MORE: Mapping[str, str] = {
    "Active users": "The users who hold the first 80 % of all interactions, counted from the busiest.",
    "Adjustment": "Two directions and two strengths, which turn a user vector into a query; a few kilobytes.",
    "Backbone": "What makes the vectors: MF (a table), LightGCN (a graph), or a torch module of yours.",
    "Intervened data": "Pairs drawn with chances that undo popularity, as if a part of the traffic had been random.",
    "Ledger": "For every item and user, the sum of what training pulled and pushed, kept while training.",
    "Popularity lift": DEFINITIONS["popularity_lift"].text,
    "Query transform": "The adjustment applied to the user vector, so that item vectors and index stay as they are.",
    "Refit": "The second training on train + validation, with what the first one chose.",
    "Run": "A folder with a trained model, its choices, its split and checksums.",
}
"""Words of the documentation that pages do not use."""


def words(names: Iterable[str] | None = None) -> list[tuple[str, str]]:
    """Words with their meanings, by default all of them, in the order of the glossary."""
    wanted = set(GLOSSARY if names is None else names)
    return [(word, meaning) for word, meaning in GLOSSARY.items() if word in wanted]


def as_markdown() -> str:
    """The text of docs/glossary.md: all words in alphabetical order."""
    pairs = sorted({**GLOSSARY, **MORE}.items(), key=lambda pair: pair[0].lower())
    body = "\n\n".join(f"**{word}**\n:   {meaning}" for word, meaning in pairs)
    return f"# Glossary\n\nEach word has one meaning, on all pages.\n\n{body}\n"
