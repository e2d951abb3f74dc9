"""counterpop evaluate"""

from __future__ import annotations

from typing import Any

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import (
    check_only,
    explain_option,
    holdout_options,
    k_option,
    names_options,
    pop_given_columns,
    pop_labels,
    seed_option,
    users_option,
)
from counterpop.cli.progress import output, working
from counterpop.comparison import compare
from counterpop.evaluation import On, contrast
from counterpop.reporting import (
    RunReport,
    comparison_sentences,
    comparison_sheet,
    comparison_table,
    gain_and_price,
    printed_table,
    summarise,
)
from counterpop.reporting.catalogue import moved_items
from counterpop.reporting.findings import headline
from counterpop.reporting.terminal import OF_RUNS, meanings, short_table


@click.command(epilog="Example: counterpop evaluate RUN --on test --k 20 --json")
@click.argument("run", type=click.Path())
@click.option(
    "--on", type=click.Choice(["valid", "test"]), default="test", show_default=True, help="Part to measure on."
)
@k_option()
@click.option("--against", type=click.Path(), help="Another run of the same split: RUN minus it, with a paired test.")
@holdout_options
@names_options
@users_option()
@explain_option()
@seed_option(help="Seed of the bootstrap, of a sample of users and of the even draw from --holdout.")
@shell
def command(run: str, on: On, k: int, against: str | None, seed: int, quiet: bool, **options: Any) -> dict[str, Any]:
    """Measure a model on held-out data, plain and adjusted, with 95 % intervals.

    RUN is a folder that train or debias wrote, or one of several seeds (train --seeds): then figures are means with
    their standard deviation over seeds.

    Recall, hit rate and NDCG are means over the users who have a held-out item. Average popularity, tail share,
    coverage, Gini and the five popularity groups describe what the lists expose. On test the lists are those of
    `recommend`: they leave out items of a user's train and validation pairs. On validation they leave out train items.

    Two figures belong together: recall if every item were shown equally often (an even test part), and as traffic is
    today (ordinary pairs, which the split holds out of train unless it was made with --ordinary 0). The change of the
    second is the price of the adjustment. After a refit, which trains on the ordinary pairs, it is measured on the
    model before it, at the same strengths.

    What debias wrote is measured on what it held out of its --holdout, as on its page. Without one, pass a later log
    here: an even draw of its pairs is the test part, all of them are ordinary pairs, and users on whom strengths were
    tuned are left out.

    --names adds the titles that gain and lose the most lists.

    --against OTHER adds RUN minus OTHER: above 0, RUN has more.
    """
    if any(map(artifacts.has_seeds, filter(None, (run, against)))):
        check_only("run", "on", "k", "against", "as_json", "debug", beside="a folder of several seeds")
        return _evaluate_seeds(run, against, on, k, quiet)
    about = pop_labels(options)
    how: dict[str, Any] = {"columns": pop_given_columns(options), "about": about}
    how |= {name: options[name] for name in ("holdout", "users")}
    reports = []
    for path in [run, *([against] if against else [])]:
        with working(f"measuring {path}"):
            reports.append(summarise(path, k, seed, on, **how))
    evaluations = [report.evaluation for report in reports]
    validation = reports[0].settings["validation"]
    result = {"run": run, "validation": validation, **evaluations[0].to_json()}
    if against:
        difference = contrast(evaluations[0].adjusted, evaluations[1].adjusted, seed=seed)
        result["against"] = {"run": against, **evaluations[1].to_json(), "difference": difference}
    if not quiet:
        _print(reports, seed, options["explain"])
    if about.names is not None:
        moved = _moved(reports[0])
        result |= moved
        for way, rows in moved.items() if not quiet else ():
            shown = ", ".join(f"{row['title'] or row['item']} ({row['before']} → {row['after']} lists)" for row in rows)
            output.print(f"{way.capitalize()} most: {shown or 'nothing'}.")
    return result


def _evaluate_seeds(run: str, against: str | None, on: On, k: int, quiet: bool) -> dict[str, Any]:
    """Means and standard deviations over the seeds of a folder, also of its plain lists, and against another one."""
    with working(f"measuring {run}"):
        found = compare([run, against] if against else [run], on=on, k=k, plain=True)
    rows = [{"adjusted": found.figures[name], "plain": found.figures[f"{name}, plain"]} for name in found.names]
    result = {"run": run, "k": k, "on": on, "users": found.users, "values": found.values, **rows[0]}
    if against:
        result["against"] = {"run": against, **rows[1], "difference": found.differences[found.names[1]]}
    if not quiet:
        table = comparison_sheet(found)
        output.print(f"{table.title}.", printed_table(table), *table.notes, *comparison_sentences(found), sep="\n")
    return result


def _moved(report: RunReport) -> dict[str, list[dict[str, Any]]]:
    """The items that gain and lose the most lists, with their titles."""
    found, catalogue = report.evaluation, report.catalogue
    if catalogue is None or catalogue.labels is None:
        return {}
    ids, names = catalogue.item_ids.tolist(), catalogue.labels.names
    return {
        way: [
            {"item": ids[one.item], "title": names[one.item], "before": one.before, "after": one.after} for one in rows
        ]
        for way, rows in zip(
            ("gained", "lost"), moved_items(found.plain.exposure, found.adjusted.exposure), strict=True
        )
    }


def _print(reports: list[RunReport], seed: int, explain: bool) -> None:
    """The verdict and a short table; with `explain`, every figure with its interval, and what the words mean."""
    first = reports[0].evaluation
    output.print(headline(first), "", short_table(reports, seed), sep="\n")
    if first.sample and not explain:
        output.print(first.sample.sentence)
    if explain:
        output.print("", *gain_and_price(first), "", comparison_table(reports, seed), "", meanings(OF_RUNS), sep="\n")
        output.print(f"Validation part of {reports[0].name}: {reports[0].settings['validation']}.")
