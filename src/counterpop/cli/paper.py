"""counterpop paper"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from counterpop.cli import shell
from counterpop.cli.options import check_only
from counterpop.cli.progress import console, output
from counterpop.cli.stopping import leave, stop_requests
from counterpop.locks import locked
from counterpop.outputs import check_writable
from counterpop.paper.datasets import HOW_TO_GET
from counterpop.paper.making import BEYOND, ITEMS, make_items
from counterpop.paper.plan import CANDIDATES, MOST_CANDIDATES, QUICK_CANDIDATES, Plan
from counterpop.paper.published import BACKBONES, DATASETS
from counterpop.paper.results import Item
from counterpop.paper.runs import Bench
from counterpop.paper.writing import SMOKE
from counterpop.progress import training_bar
from counterpop.training import Interrupted, Progress
from counterpop.training.settings import Device

WITHOUT_TRAINING = ("items", "data", "out", "datasets", "as_json", "debug")
MF_ONLY = {"losses", "figure1", "proportion"}
WITHOUT = {
    "candidates": {"table1", "table2", "table4", "losses"},
    "lightgcn_candidates": {"table1", "table2", "table4", *MF_ONLY},
    "seeds": {"table1", "table2", "table4"},
}


def _explain(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(HOW_TO_GET, nl=False)
        context.exit()


@contextmanager
def _watch(label: str) -> Iterator[Callable[[Progress], None]]:
    """A line and a progress bar for each run."""
    console.print(label)
    with training_bar(console) as show:
        yield show


@click.command(epilog="Example: counterpop paper all --data ../shared/data --out paper --backbone mf")
@click.argument("items", type=click.Choice([*ITEMS, *BEYOND, "all"]), nargs=-1, required=True, metavar="ITEM...")
@click.option("--data", type=click.Path(), required=True, help="Folder with ml10m.npz and the others.")
@click.option("--out", type=click.Path(), required=True, help="Folder for the page, the tables and the runs.")
@click.option("--quick", is_flag=True, help="A smoke run of minutes on a few users; its figures mean nothing.")
@click.option(
    "--candidates",
    type=click.IntRange(1, MOST_CANDIDATES),
    default=CANDIDATES,
    show_default=True,
    help="Settings that every method is searched over, the same number for each.",
)
@click.option(
    "--lightgcn-candidates",
    type=click.IntRange(1, MOST_CANDIDATES),
    help="The same for LightGCN, whose runs take longest. [default: as --candidates]",
)
@click.option("--backbone", type=click.Choice(BACKBONES), help="Only this backbone. [default: both, mf first]")
@click.option(
    "--dataset", "datasets", type=click.Choice(DATASETS), multiple=True, help="Only this data set; may be repeated."
)
@click.option("--device", type=click.Choice(get_args(Device)), default="cpu", show_default=True)
@click.option("--mf-on-cpu", is_flag=True, help="Train MF on the CPU; --device is then for LightGCN only.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds of every method.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option(
    "--how-to-get-data",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Say where to get the data sets, and stop.",
)
@shell
def command(
    items: tuple[str, ...],
    data: str,
    out: str,
    backbone: str | None,
    datasets: tuple[str, ...],
    quiet: bool,
    **options: Any,
) -> dict[str, Any]:
    """Reproduce the paper's tables and figures, next to the published numbers.

    \b
    table1      popular items, active users        table5      ablation
    table2      the data sets                      figure1     accumulated gradients
    table3      all methods on all data sets       groups      popularity groups
    losses      BPR against BCE                    proportion  share of intervened test data
    table4      seconds per epoch                  strengths   the grid of strengths
    all         all of these                       directions  what produces the gain
    frontier    every method known, and the best of ours; asked for by name only

    Writes OUT/index.html, and every item as Markdown, CSV, LaTeX, JSON, PNG and SVG. Settings, epochs and strengths are
    chosen on validation. Every run is kept in OUT/runs, and the one in progress as a checkpoint: after a crash or a
    signal the same command continues where it stopped, and a second call trains nothing.

    All items with MF and one seed take under an hour on two cores. A LightGCN run takes 10 to 25 minutes on the CPU:
    use --device cuda, skip it with --backbone mf, or be patient (MF comes first).
    """
    _check_usage(items, backbone, options)
    names = list(dict.fromkeys(name for item in items for name in (ITEMS if item == "all" else [item])))
    start, folder = time.perf_counter(), Path(out)
    check_writable(folder / "index.html")
    stages = [(backbone,)] if backbone else [BACKBONES[:1], BACKBONES]  # all of MF, then the rest
    made, claims = 0, {}
    with locked(folder), stop_requests() as caught:
        for backbones in stages:
            plan = Plan(backbones=backbones, **options)
            watch = (lambda label: nullcontext(None)) if quiet else _watch
            how: dict[str, Any] = {"watch": watch, "datasets": datasets, "should_stop": lambda: bool(caught)}
            bench = Bench(Path(data), folder / "runs", plan, **how)
            try:
                for item in make_items(bench, names, folder, rest_follows=backbones != stages[-1]):
                    claims[item.name] = [claim.__dict__ for claim in item.claims]
                    if not quiet and backbones == stages[-1]:
                        _print_item(item)
            except Interrupted:
                leave(caught, "stopped; the same command goes on from here")
            made += bench.cache.made
    seconds = time.perf_counter() - start
    if not quiet:
        if options["quick"]:
            output.print(SMOKE)
        output.print(f"{made or 'No'} new runs, {seconds:.0f} s. Open {folder / 'index.html'}.")
    return {"out": out, "items": names, "new_runs": made, "seconds": seconds, "claims": claims}


def _check_usage(items: tuple[str, ...], backbone: str | None, options: dict[str, Any]) -> None:
    """Raises `click.UsageError` if an option has no effect on any of the items."""
    asked = set(items)
    if options["mf_on_cpu"] and (options["device"] == "cpu" or backbone or asked <= MF_ONLY):
        raise click.UsageError("--mf-on-cpu works only together with --device cuda, for items with both backbones")
    if backbone == "lightgcn" and asked <= MF_ONLY:
        raise click.UsageError(f"--backbone lightgcn does not go with {', '.join(sorted(asked))}: only MF is trained")
    if asked <= {"table1", "table2"}:
        check_only(*WITHOUT_TRAINING, beside="table1 and table2, which train nothing")
    source = click.get_current_context().get_parameter_source
    for name, without in WITHOUT.items():
        if asked <= without and source(name) != ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} has no effect on {', '.join(sorted(asked))}")
    if options["lightgcn_candidates"] and backbone:
        raise click.UsageError("--lightgcn-candidates goes with both backbones; with one, --candidates is enough")
    asked_for = options["candidates"] if source("candidates") != ParameterSource.DEFAULT else 0
    if options["quick"] and max(asked_for, options["lightgcn_candidates"] or 0) > QUICK_CANDIDATES:
        raise click.UsageError(
            f"--quick searches at most {QUICK_CANDIDATES} candidates; ask for {QUICK_CANDIDATES} or fewer"
        )


def _print_item(item: Item) -> None:
    output.print(item.title)
    for claim in item.claims:
        output.print(f"  {claim.verdict} ({claim.section}): {claim.claim} {claim.evidence}")
    for text in item.missing:
        output.print(f"  missing: {text}")
