"""What each figure of an audit means. Tables and pages print these texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

CLASSES = ("top", "middle", "tail")
SEGMENTS = ("niche", "mixed", "mainstream")


@dataclass(frozen=True)
class Definition:
    """What a figure is, in words."""

    label: str
    kind: Literal["count", "share", "lift", "number"]
    text: str
    source: str = ""
    published: str = ""
    """The short name under which it was published."""

    @property
    def title(self) -> str:
        return f"{self.label} ({self.published})" if self.published else self.label


_COMPARED = "the users who have a list and a profile (over all lists if nobody has a profile)"
_DIAZ_2020 = "Diaz et al., CIKM 2020"
_ABDOLLAHPOURI_2019 = "Abdollahpouri, Burke and Mobasher, FLAIRS 2019"
_ZHU_2020 = "Zhu, Wang and Caverlee, SIGIR 2020"
DEFINITIONS: Mapping[str, Definition] = {
    "average_popularity": Definition(
        "Average popularity",
        "count",
        f"Interactions in the log of a recommended item: mean over each list, then over {_COMPARED}.",
        _ABDOLLAHPOURI_2019,
        "ARP",
    ),
    "expected_popularity": Definition(
        "Popularity of the log",
        "count",
        "Interactions in the log of an item drawn in proportion to its interactions from the items that are not in the "
        f"user's profile, mean over {_COMPARED}. If at least 1 % of the places hold items of the profile, the system "
        "evidently repeats items, and the draw is from all items.",
    ),
    "amplification": Definition(
        "Amplification",
        "lift",
        "(average popularity - popularity of the log) / popularity of the log: the lists compared with what chance "
        "would show the same users. 0: as popular as the log; +100 %: twice as popular. The verdict rests on this and "
        "on the tail share: up to 10 % above or below the log (20 % for the tail share) counts as equal to the log.",
    ),
    "profile_popularity": Definition(
        "Popularity of profiles",
        "count",
        "Interactions in the log of an item in a user's profile (their rows in the log): mean over each profile, then "
        f"over {_COMPARED}.",
        "Abdollahpouri et al., RMSE workshop at RecSys 2019, as GAP",
    ),
    "highest_popularity": Definition(
        "Highest popularity",
        "count",
        "Interactions in the log of the k most popular items among those from which the popularity of the log is drawn "
        f"(all, or those not in a user's profile): mean over these, then over {_COMPARED}.",
    ),
    "popularity_lift": Definition(
        "Popularity lift",
        "lift",
        "(average popularity - popularity of profiles) / popularity of profiles: the same lists compared with what the "
        "same users chose. 0: what is shown is as popular as what was chosen; +100 %: twice as popular. It differs "
        "from amplification because profiles count every user once, while the log counts every interaction and leaves "
        "out what the user already has.",
        "Abdollahpouri et al., RecSys 2020",
    ),
    "tail_share": Definition(
        "Tail share",
        "share",
        f"Share of a list that lies in the tail, mean over {_COMPARED}. With items sorted by falling interactions, the "
        "head is the first items whose running sum stays within 80 % of all interactions; the tail is the rest.",
        _ABDOLLAHPOURI_2019,
        "APLT",
    ),
    "expected_tail_share": Definition(
        "Tail share of the log",
        "share",
        f"Share of the tail among items drawn from the log as for its popularity, mean over {_COMPARED}.",
    ),
    "profile_tail_share": Definition(
        "Tail share of profiles", "share", f"Share of a profile that lies in the tail, mean over {_COMPARED}."
    ),
    "tail_items": Definition(
        "Tail items in a list",
        "number",
        "Number of tail items in a list, mean over the lists. This is the published formula; the published name, "
        "average coverage of the tail, would better fit the coverage below.",
        _ABDOLLAHPOURI_2019,
        "ACLT",
    ),
    "tail_coverage": Definition("Coverage of the tail", "share", "Tail items in at least one list / all tail items."),
    "coverage": Definition("Coverage", "share", "Items in at least one list / all items."),
    "expected_coverage": Definition(
        "Coverage of the log",
        "share",
        "The coverage to expect if every place of the lists were drawn from the log in proportion to interactions: "
        "mean over items of 1 - (1 - p)^n, where p is the item's share of the interactions and n the number of places.",
    ),
    "gini": Definition(
        "Gini of exposure",
        "number",
        "How unevenly recommendations are spread over items: sum over all pairs of items |c_i - c_j| / (2 n sum c), "
        "where c is the number of lists an item is in and n the number of items. 0: all items are in equally many "
        "lists; towards 1: few items get everything.",
    ),
    "log_gini": Definition("Gini of the log", "number", "The same Gini, of the items' interactions in the log."),
    "most_recommended_share": Definition(
        "Places of the top 1 %",
        "share",
        "Share of all places in lists that go to the 1 % of items (rounded up) that are in the most lists.",
    ),
    "log_top_share": Definition(
        "Interactions of the top 1 %",
        "share",
        "Share of all interactions in the log that the 1 % of items (rounded up) with the most interactions have.",
    ),
    "exposure_disparity": Definition(
        "Expected exposure, disparity",
        "number",
        "Sum over items of e^2, where e is the item's share of all attention, and a place gets the attention "
        "1 / log2(1 + rank). 1 / this is the number of items that would share all attention equally.",
        _DIAZ_2020,
        "EE-D",
    ),
    "log_disparity": Definition(
        "Disparity of the log", "number", "The same sum, of the items' shares of the interactions in the log."
    ),
    "exposure_loss": Definition(
        "Expected exposure, loss",
        "number",
        "Sum over items of (e - t)^2, where e is the item's share of all attention and t its share of the interactions "
        "in the log: the attention it would get if attention followed what users chose. 0: it does.",
        f"{_DIAZ_2020}, over all users together as in Wu et al., SIGIR 2022, with interactions for relevance",
        "EE-L",
    ),
    "awrf": Definition(
        "Attention-weighted rank fairness",
        "number",
        "1 - Jensen-Shannon divergence in bits between the shares of top, middle and tail items in the attention of a "
        f"list and in the interactions of the log, mean over {_COMPARED}. 1: the same mix.",
        "Sapiezynski et al., FATES workshop at WWW 2019, in the form of the TREC 2022 Fair Ranking Track",
        "AWRF",
    ),
    "miscalibration": Definition(
        "Miscalibration",
        "number",
        "Jensen-Shannon divergence in bits between the shares of top, middle and tail items in a user's profile and in "
        "their list, mean over the users who have both. Top items hold the first 20 % of the interactions, tail items "
        "those beyond 80 %. 0: the same mix; 1: nothing in common.",
        "Abdollahpouri et al., UMAP 2021, as UPD, there averaged over groups of users",
    ),
    "pop_rsp": Definition(
        "Statistical parity of head and tail",
        "number",
        "Standard deviation / mean of two rates, one for the head and one for the tail: recommended pairs of user and "
        "item / all pairs of a user with a list and an item that is not in their profile. 0: head and tail items have "
        "the same chance of being shown; 1: only one of the two groups is shown.",
        _ZHU_2020,
        "PopRSP",
    ),
    "expected_pop_rsp": Definition(
        "Statistical parity of the log",
        "number",
        "The same ratio if the places were filled by draws from the log: with the tail share of the log in place of "
        "that of the lists.",
    ),
    "pop_reo": Definition(
        "Equal opportunity of head and tail",
        "number",
        "Standard deviation / mean of two rates, one for the head and one for the tail: held-out pairs that the lists "
        "find / all held-out pairs of users with a list. 0: what users like is found equally often in both; 1: only in "
        "one. Unknown without held-out pairs.",
        _ZHU_2020,
        "PopREO",
    ),
}
SEGMENT_RULE = (
    "Users by the share of head items in their profile: niche up to the 20th percentile, mainstream from the 80th, "
    "mixed in between. Users with equal shares stay together, so the segments are about 20, 60 and 20 % of the users "
    "(the cuts of Abdollahpouri et al., RMSE workshop at RecSys 2019)."
)
GROUP_RULE = "Items by falling interactions: four groups of 5 % of the items each, then the remaining 80 %."
NOTES: Mapping[str, str] = {
    "short_lists": "Lists of fewer than {k} items",
    "empty_lists": "Empty lists",
    "users_without_list": "Users of the log without a list",
    "users_without_profile": "Lists of users without a profile, who are in no segment",
    "already_chosen": "Recommended items that are already in the user's profile",
    "unknown_users": "Users with a list who are not in the log",
    "unknown_items": "Recommended items that are not in the log, counted as items without interactions",
    "repeated": "Rows that repeat an item of their list, which keeps its first place",
    "beyond_k": "Rows beyond place {k} of their list, which were not audited",
    "without_vector": "Rows of the log left out because their user or item has no vector",
    "unknown_held_out": "Held-out pairs left out because their user or item is not in the log",
    "known_held_out": "Held-out pairs left out because they are also in the log",
}
"""What a reader must know about the input, each with a number."""
