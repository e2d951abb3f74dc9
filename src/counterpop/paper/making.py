"""All items of the paper, made and written one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from counterpop.paper.ablation import make_table5
from counterpop.paper.accuracy import make_table3
from counterpop.paper.cost import make_table4
from counterpop.paper.estimators import make_directions
from counterpop.paper.frontier import make_frontier
from counterpop.paper.gradients import make_figure1
from counterpop.paper.groups import make_groups
from counterpop.paper.losses import make_losses
from counterpop.paper.proportion import make_proportion
from counterpop.paper.results import Item
from counterpop.paper.runs import Bench
from counterpop.paper.statistics import make_table1, make_table2
from counterpop.paper.strengths import make_strengths
from counterpop.paper.writing import is_written, write_item, write_overview

ITEMS: dict[str, Callable[[Bench], Item]] = {
    "table1": make_table1,
    "table2": make_table2,
    "table3": make_table3,
    "losses": make_losses,
    "table4": make_table4,
    "table5": make_table5,
    "figure1": make_figure1,
    "groups": make_groups,
    "proportion": make_proportion,
    "strengths": make_strengths,
    "directions": make_directions,
}
BEYOND: dict[str, Callable[[Bench], Item]] = {"frontier": make_frontier}
"""What is made only if it is asked for by name: no part of the paper, and long."""


def make_items(bench: Bench, names: Sequence[str], out: Path, *, rest_follows: bool = False) -> Iterator[Item]:
    """Makes the named items one after another; each is on disk, and on the page, by the time it is yielded.

    Items that the folder already holds are left as they are. With `rest_follows` (the same items will be made again
    with more backbones), an item is written only if a run was made for it.
    """
    # losses measures both losses on test, while table3's search only trains them: losses first, or some run twice
    order = ITEMS | BEYOND
    for name in sorted(names, key=lambda name: (name != "losses", list(order).index(name))):
        bench.cache.used.clear()
        before = bench.cache.made
        item = order[name](bench)
        if (bench.cache.made > before or not rest_follows) and not is_written(item, out, bench.cache.used):
            write_item(item, out, bench.plan, bench.cache)
            write_overview(out, list(order))
        yield item
