"""counterpop train"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import check_needed, force_option
from counterpop.cli.progress import console, output, training_progress
from counterpop.cli.stopping import leave, stop_requests
from counterpop.errors import InputError
from counterpop.locks import locked
from counterpop.outputs import check_space
from counterpop.runs import Run
from counterpop.splits import Development
from counterpop.training import Interrupted, Settings, search, train
from counterpop.training import settings as options
from counterpop.training.backbones import BACKBONES
from counterpop.training.checkpoints import digest, remove_checkpoint
from counterpop.training.methods import METHODS, Method, make_method

DEFAULT = Settings()
MINUTES = 10.0
MOST_THREADS = 1024
BY_BACKBONE = {backbone.name: Settings(backbone=backbone.name) for backbone in BACKBONES if backbone.builtin}
LOSSES = sorted({loss for method in METHODS for loss in method.losses}, reverse=True)
ONE_LOSS = ", ".join(f"{method.name} always uses {method.losses[0]}" for method in METHODS if len(method.losses) == 1)
OPTIONS = "; ".join(
    f"{method.name} has {', '.join(field.name for field in fields(method))}" for method in METHODS if fields(method)
)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def choice(name: str, values: Iterable[str], text: str) -> Decorator:
    """An option with the values of a setting."""
    default = getattr(DEFAULT, name)
    text = f"{text} [default: {default if isinstance(default, str) else default.name}]"
    return click.option(f"--{name}", type=click.Choice(list(values)), help=text)


def number(name: str, text: str) -> Decorator:
    """An option with a setting's number; the help names the default of each backbone."""
    values = {backbone: getattr(settings, name) for backbone, settings in BY_BACKBONE.items()}
    value = getattr(DEFAULT, name)
    default = "; ".join([f"{value:g}", *(f"{key} {other:g}" for key, other in values.items() if other != value)])
    if any(name in settings for method in METHODS for settings in method.defaults.values()):
        default += "; baselines have their own"
    if (softmax := getattr(Settings(loss="softmax"), name)) != value:
        default += f"; mf with softmax {softmax:g}"
    return click.option(f"--{name.replace('_', '-')}", type=type(value), help=f"{text} [default: {default}]")


def softmax_number(name: str, text: str) -> Decorator:
    """An option with a number that only the softmax loss has."""
    default = getattr(Settings(loss="softmax"), name)
    text = f"Softmax: {text[0].lower()}{text[1:]} [default: {default:g}]"
    return click.option(f"--{name.replace('_', '-')}", type=type(default), help=text)


def read_given(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """{"margin": 20.0, "discrepancy": "l2"} from ("margin=20", "discrepancy=l2")."""
    given: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value!r} is not a name and a value, as in margin=20")
        try:
            given[name] = {"true": True, "false": False}[text] if text in ("true", "false") else float(text)
        except ValueError:
            given[name] = text
    return given


@click.command(epilog="Example: counterpop train SPLIT --backbone mf --method gradient --out RUN")
@click.argument("split", type=click.Path())
@choice("backbone", BY_BACKBONE, "The model.")
@click.option(
    "--loss", type=click.Choice(LOSSES), help=f"What training minimises; {ONE_LOSS}. [default: chosen by validation]"
)
@choice(
    "method", [m.name for m in METHODS], "gradient keeps the ledger and normalises users; the others are baselines."
)
@click.option(
    "--option",
    "given",
    multiple=True,
    callback=read_given,
    metavar="NAME=VALUE",
    help=f"An option of the method: {OPTIONS}.",
)
@number("dim", "Width of the vectors; for MF, a race may double the default.")
@number(
    "epochs",
    "Maximum number of epochs; training may stop earlier, by the validation part. A race may double the default.",
)
@click.option(
    "--sampling",
    type=click.Choice(get_args(options.Sampling)),
    help="Draw positives from all interactions, or draw a user first. [default: users; softmax interactions]",
)
@number("layers", "Propagations over the graph; 1 to 4 for lightgcn.")
@number(
    "batch",
    "Triples in a step, at most a 64th of an epoch; mf on the CPU steps after each triple, softmax after a batch.",
)
@number("edge_dropout", "Share of edges that lightgcn leaves out in each step.")
@choice("device", get_args(options.Device), "Where to train; cuda needs counterpop[torch] and a GPU.")
@click.option(
    "--engine",
    type=click.Choice(get_args(options.Engine)),
    help="Our own kernels, or torch. [default: native on the CPU, torch on cuda]",
)
@click.option(
    "--refit/--no-refit",
    default=True,
    show_default=True,
    help="Train again on train + validation for the chosen epochs.",
)
@click.option(
    "--ensemble",
    type=click.IntRange(min=1),
    help="Train this many models from different seeds and use them as one, this many times as wide. [default: 1]",
)
@click.option("--reduce", type=click.IntRange(min=1), help="Reduce the vectors to this width. [default: keep it]")
@number("lr", "Learning rate.")
@choice("schedule", get_args(options.Schedule), "How the learning rate falls.")
@number("reg", "L2.")
@number("initial_scale", "Standard deviation of the first values.")
@number("negatives", "Negatives for each positive.")
@click.option(
    "--negative-power",
    type=float,
    help="Draw negatives by popularity to this power; 0 is uniform. [default: chosen by validation; baselines 0]",
)
@softmax_number("temperature", "What scores are divided by; the smaller, the more the hardest negatives count.")
@softmax_number("logq", "Which negatives count: 1 is uniform, 0 by popularity, below 0 steeper still.")
@softmax_number("shared_negatives", "Negatives drawn for each batch; 0 takes the batch's other items.")
@click.option(
    "--normalise/--no-normalise",
    default=None,
    help="Normalise users in training; with softmax, users and items. [default: by method; softmax always]",
)
@click.option("--ledger/--no-ledger", default=None, help="Keep the ledger. [default: by method]")
@number("ledger_every", "Record one triple in this many in the ledger.")
@number("check_every", "Epochs between two looks at validation.")
@number("patience", "Looks without an improvement before training stops.")
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Cores to use. [default: all]")
@number("seed", "The same seed and number of threads give identical results.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    help="Train one run for each of this many seeds, from --seed on: OUT/seed-0, OUT/seed-1, ...",
)
@click.option("--auto", is_flag=True, help="Search all settings that are not given, for --minutes.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Time for --auto, its last training included. [default: 10]",
)
@click.option(
    "--price",
    type=click.FloatRange(0, 1),
    help="Share of ordinary recall that the choice of negatives may cost; 1 sets no limit. [default: 0.05]",
)
@click.option("--out", type=click.Path(), required=True, help="The run folder to write.")
@force_option()
@click.option("--resume", is_flag=True, help="Go on from OUT.checkpoint, which a stopped or killed training left.")
@shell
def command(
    split: str,
    out: str,
    force: bool,
    resume: bool,
    normalise: bool | None,
    given: dict[str, Any],
    auto: bool,
    minutes: float | None,
    seeds: int | None,
    quiet: bool,
    **settings: Any,
) -> dict[str, Any]:
    """Train a model on a split folder and save it as a run folder.

    Training looks at the validation part, never at test, and keeps the best model. Without --loss or
    --negative-power, short trainings on the same data choose them first, each for a tenth of a whole
    one. Two more try twice the epochs and, for MF, twice the width, and keep what gains enough; --epochs leaves out
    both, --dim the second. A second model is then trained on train + validation for the chosen epochs: `tune`
    chooses strengths on the first, `evaluate` and `recommend` use them on the second. --no-refit leaves it out,
    in half the time.

    With --auto, nothing needs to be known: backbone, loss, width, rate, L2 and negatives are searched on
    validation until the time is up. If time is left for it, an ensemble is trained. An interrupted search goes on
    when the command is repeated.

    Negatives drawn by popularity may cost 5 % of ordinary recall, with or without --auto, if the split has an
    ordinary part. --price 1 lets validation alone decide, which may lead to lists of rare items.

    Ctrl-C or SIGTERM keeps the best model so far in OUT and everything else in OUT.checkpoint, which is also written
    now and then. The same command with --resume goes on from there and ends with the same model.

    --seeds N trains N ordinary runs that differ by their seed. `tune` and `evaluate` take the folder of all, and
    `compare` sets it against others. With --resume, finished seeds are kept.
    """
    check_needed(minutes="auto")
    settings = {name: value for name, value in settings.items() if value is not None}
    if given:
        settings["method"] = make_method(settings.get("method", DEFAULT.method.name), given)
    settings["normalised"] = normalise
    if seeds is not None:
        if auto:
            raise click.UsageError("--seeds does not go with --auto; search once, then pass the settings it found")
        with locked(out):
            return _train_seeds((split, out), (force, resume), quiet, seeds, settings)
    make = partial(search, minutes=MINUTES if minutes is None else minutes, storage=f"{out}.search") if auto else train
    return _train_once(make, (split, out), (force, resume), quiet, settings)


def _train_seeds(
    paths: tuple[str, str], modes: tuple[bool, bool], quiet: bool, number: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """One run for each seed; those that are finished are kept when the command is resumed."""
    (split, out), (force, resume), first = paths, modes, settings.get("seed", DEFAULT.seed)
    results, folders = {}, artifacts.begin_seeds(out, range(first, first + number), force, resume)
    data = digest(artifacts.load_split(split).development) if resume else None
    for seed, folder in enumerate(folders, first):
        if resume and artifacts.is_trained(folder):
            saved = artifacts.load_run(folder)
            _check_same(saved, data, settings)
            results[folder.name] = _result(saved.run, str(folder), saved.known.drawn, 0.0)
            continue
        where = split, str(folder)
        results[folder.name] = _train_once(train, where, modes, quiet, settings | {"seed": seed})
    recalls = [one["valid_recall"] for one in results.values()]
    mean, std = statistics.fmean(recalls), statistics.stdev(recalls) if number > 1 else None
    if not quiet:
        scatter = "" if std is None else f", standard deviation {std:.4f}"
        output.print(f"{number} seeds: validation recall {mean:.4f} on average{scatter}. Wrote {out}.")
    return {"out": out, "valid_recall": {"mean": mean, "std": std, "seeds": number}, "seeds": results}


def _check_same(saved: artifacts.SavedRun, data: str | None, settings: Mapping[str, Any]) -> None:
    """Raises if a finished run was trained on other data or with other settings than its set is now resumed with."""
    if digest(saved.known) != data:
        raise InputError(f"{saved.path} was trained on another split; pass --force to train all seeds again")
    before, asked = saved.run.settings, dict(settings)
    if isinstance(method := asked.get("method"), Method):
        asked |= {"method": method.name, "options": asdict(method)}
    for name, value in asked.items():
        if name != "seed" and value is not None and name in before and before[name] != value:
            raise InputError(
                f"{saved.path} was trained with {name} {before[name]}, not {value}; pass --force to train again"
            )


def _train_once(
    make: Callable[..., Run], paths: tuple[str, str], modes: tuple[bool, bool], quiet: bool, settings: dict[str, Any]
) -> dict[str, Any]:
    """Trains, saves and prints one run."""
    start, out = time.perf_counter(), paths[1]
    run, drawn = _train(make, paths, modes, quiet, **settings)
    result = _result(run, out, drawn, time.perf_counter() - start)
    epochs, best, seconds = (result[name] for name in ("epochs", "valid_recall", "seconds"))
    how = ", adjusted" if run.model.dials else ""
    if not quiet:
        for tried in filter(None, map(run.settings.get, ("race", "search"))):
            output.print(tried["sentence"])
        _print_ensemble(run.settings)
        output.print(
            f"Best after {epochs} epochs (validation recall {best:.4f}{how}; validation part: {drawn}), "
            f"{seconds:.1f} s. Wrote {out}."
        )
    return result


def _result(run: Run, out: str, drawn: str, seconds: float) -> dict[str, Any]:
    """What --json prints of a run."""
    best = run.settings.get("valid_recall") or max(entry["valid"] for entry in run.history if "valid" in entry)
    return {
        "out": out,
        "epochs": run.settings["chosen_epochs"],
        "valid_recall": best,
        "validation": drawn,
        "seconds": seconds,
        "epoch_seconds": sorted(entry["seconds"] for entry in run.history)[len(run.history) // 2],
        "settings": run.settings,
    }


def _print_ensemble(made: dict[str, Any]) -> None:
    """The validation recall of the members, of all together, and after a reduction."""
    if "members" not in made:
        return
    recalls = [member["valid_recall"] for member in made["members"]]
    together = made.get("valid_recall_before_reduction", made["valid_recall"])
    output.print(
        f"Ensemble of {len(recalls)}: validation recall for a member on average {sum(recalls) / len(recalls):.4f}, "
        f"together {together:.4f}."
    )
    if "reduce" in made:
        output.print(
            f"Reduced to a width of {made['reduce']}: validation recall {together:.4f} before, "
            f"{made['valid_recall']:.4f} after."
        )


def _train(
    make: Callable[..., Run], paths: tuple[str, str], modes: tuple[bool, bool], quiet: bool, **settings: Any
) -> tuple[Run, str]:
    """Trains and saves; returns the run and how its validation part was drawn. Leaves if it was stopped."""
    (split, out), (force, resume), stopped = paths, modes, None
    checkpoint = Path(f"{out}.checkpoint")  # kept until the run is saved, as is the journal of a search
    searches, journal = make is not train, Path(f"{out}.search")
    again = force and not resume
    resume |= searches and not again and journal.exists()  # a search goes on when it is repeated
    if checkpoint.exists() and not (resume or force):
        raise InputError(f"{checkpoint} is left of a stopped training; pass --resume, or --force to start again")
    more: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume}
    if resume and not checkpoint.exists() and not searches:
        console.print(f"Note: there is no {checkpoint}, so training starts from the beginning.")
    replaces = force or (resume and artifacts.is_interrupted(out))
    with stop_requests() as caught, artifacts.begin_run(out, split, replaces) as (known, fill):
        _check_space(out, known, settings)
        if again:  # only now: before, it may be that of another process
            journal.unlink(missing_ok=True)
        more |= {"should_stop": lambda: bool(caught)}
        try:
            with training_progress(quiet) as show:
                run = make(known, on_progress=show, progress=False, **more, **settings)
        except Interrupted as interrupted:
            if interrupted.run is None:
                leave(caught, f"{interrupted}; there is no model yet")
            run, stopped = interrupted.run, str(interrupted)
        fill(run)
    if stopped:
        leave(caught, f"{stopped}. The best model so far, of epoch {run.settings['chosen_epochs']}, is in {out}")
    journal.unlink(missing_ok=True)
    remove_checkpoint(checkpoint)
    return run, known.drawn


def _check_space(out: str, known: Development, given: Mapping[str, Any]) -> None:
    """Raises before training if the run will not fit on the disk."""
    ours = {field.name for field in fields(Settings)}
    chosen = Settings(**{name: value for name, value in given.items() if name in ours})
    rows, copies = known.train.n_users + known.train.n_items, given.get("ensemble", 1) * (2 if given["refit"] else 1)
    wide = chosen.dim * (5 if chosen.keeps_ledger else 1)  # a ledger has four times as many numbers
    check_space(out, 4 * copies * rows * wide)
