"""The command ``paperworks``.

Every error is one line on stderr; ``--debug`` shows the traceback. Exit codes: 0 done (whatever the verdict), 1 a trial
failed, 2 wrong usage or bad input, 130 interrupted. Heavy modules are imported inside the commands that need them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from paperworks.bench.store import RunRecord, Store
    from paperworks.datasets import OwnFile

__all__ = ["app", "main"]

_INTERRUPTED = 130
_UsageError = typer.BadParameter.__mro__[1]  # typer's own copy of click has no public name for it

app = typer.Typer(
    name="paperworks",
    help="Newly published machine-learning methods, each proven by a command.",
    epilog="Errors are one line; add --debug for the traceback.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Data sets that studies use.", no_args_is_help=True)
app.add_typer(data_app, name="data")


class ScaleName(StrEnum):
    smoke = "smoke"
    quick = "quick"
    paper = "paper"


class Backend(StrEnum):
    loky = "loky"
    ray = "ray"
    dask = "dask"


class VerdictName(StrEnum):
    holds = "holds"
    fails = "fails"
    inconclusive = "inconclusive"
    none = "none"


class DataKind(StrEnum):
    table = "table"
    graph = "graph"
    matrix = "matrix"
    series = "series"
    image = "image"
    text = "text"
    molecules = "molecules"


StoreOption = Annotated[
    str | None,
    typer.Option("--store", envvar="PAPERWORKS_STORE", help="Where results live: a file or a database URL."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def _console(*, stderr: bool = False) -> Console:
    """Return a console; without a terminal it is wide, so that no name is cut in a file or a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 160
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def _open_store(url: str | None) -> Store:
    from paperworks.bench.store import Store

    return Store(url)


def _version(show: bool) -> None:
    if show:
        from paperworks import __version__

        print(f"paperworks {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Newly published machine-learning methods, each proven by a command."""


@app.command("list")
def list_methods(
    family: Annotated[str | None, typer.Option(help="Only this family.")] = None,
    verdict: Annotated[VerdictName | None, typer.Option(help="Only methods whose last verdict is this.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """All methods: paper, public names, extras needed, last verdict."""
    from paperworks.bench import catalog
    from paperworks.bench.report import terminal

    entries = catalog.entries()
    families = sorted({entry.study.family for entry in entries})
    if family is not None and family not in families:
        raise _usage(f"--family {family!r} is unknown; families: {', '.join(families)}")
    with _open_store(store) as opened:
        latest = opened.latest()
    rows = []
    for entry in entries:
        study = entry.study
        run = latest.get(study.slug)
        word = run.verdict["verdict"] if run is not None and run.verdict else None
        if (family is not None and study.family != family) or (
            verdict is not None and (word or "none") != verdict.value
        ):
            continue
        rows.append(
            {
                "slug": study.slug,
                "family": study.family,
                "paper": study.paper.title,
                "venue": study.paper.venue,
                "public_names": list(catalog.public_names(catalog.method_module(entry.ref))),
                "extras": list(study.extras),
                "verdict": word,
                "scale": run.scale if run else None,
                "run": run.id if run else None,
                "date": run.started.date().isoformat() if run else None,
            }
        )
    if as_json:
        _print_json(rows)
    else:
        _console().print(terminal.methods_table(rows))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A method (`immax`), or the number of a run.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """The card of a method with its last results, or a stored run."""
    with _open_store(store) as opened:
        if name.isdecimal():
            _show_run(opened, int(name), as_json)
        else:
            _show_method(opened, name, as_json)


def _show_run(store: Store, number: int, as_json: bool) -> None:
    from paperworks.bench.report import terminal

    run = store.run(number)
    if as_json:
        _print_json({**terminal.run_to_json(run), "trials": [terminal.trial_to_json(t) for t in store.trials(number)]})
        return
    _console().print(terminal.run_view(run, store.results(number), _study_of(run)))


def _show_method(store: Store, name: str, as_json: bool) -> None:
    from paperworks.bench.card import card_for
    from paperworks.bench.report import terminal

    card = card_for(name)
    run = store.latest().get(card.slug)
    if as_json:
        _print_json({**card.to_json(), "last_run": terminal.run_to_json(run) if run else None})
        return
    console = _console()
    console.print(terminal.card_view(card))
    if run is None:
        console.print(f"No results stored yet: paperworks run {name}")
    else:
        console.print(terminal.run_view(run, store.results(run.id), _study_of(run)))


def _study_of(run: RunRecord) -> Any:
    """Return the study behind a run, or None where its module is not on this machine."""
    from paperworks.bench.catalog import load_study, resolve

    try:
        return load_study(resolve(str(run.arguments.get("study", run.study))))
    except (LookupError, ImportError, ValueError):
        return None


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A method (`immax`) or a study file (`my_study.py`).")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Run every study that ships with paperworks.")] = False,
    scale: Annotated[ScaleName, typer.Option(help="Size of the study.")] = ScaleName.quick,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trials at a time; all cores by default.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each trial.")] = 1,
    backend: Annotated[Backend, typer.Option(help="Where trials run.")] = Backend.loky,
    address: Annotated[str | None, typer.Option(help="Address of a Ray or Dask cluster.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, such as 0-7 or 0,3,5.")] = None,
    contenders: Annotated[str | None, typer.Option(help="Only these contenders, with commas between.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these data sets, with commas between.")] = None,
    data: Annotated[Path | None, typer.Option(help="Your own file: CSV, Parquet, NPZ or GraphML.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of your file to predict.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Text encoding of your CSV; UTF-8 by default.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column of your file to leave out (repeatable).")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Seconds that one trial may take.")] = None,
    store: StoreOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute every trial anew.")] = False,
    report_dir: Annotated[Path, typer.Option("--report", help="Folder of the HTML report.")] = Path(
        "paperworks-report"
    ),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no HTML report.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a method with what people use today and compute the verdict on its paper's claims."""
    from paperworks.bench import catalog
    from paperworks.bench.report import terminal
    from paperworks.bench.runner import RunInterrupted, run_study

    if everything == bool(study):
        raise _usage("name one study, or say --all")
    for option, value in (("--contenders", contenders), ("--datasets", datasets), ("--data", data)):
        if everything and value is not None:
            raise _usage(f"{option} belongs to one study, it can't go with --all")
    refs = [entry.ref for entry in catalog.entries()] if everything else [catalog.resolve(study)]
    quiet = Console(stderr=True, quiet=True)
    console = quiet if as_json else _console()
    printed: list[dict[str, Any]] = []
    n_failed = 0
    with _open_store(store) as opened:
        last = None
        for ref in refs:
            loaded = catalog.load_study(ref)
            own = _own_file(loaded, data, target, encoding, drop)
            console.print(terminal.study_header(loaded, scale.value))
            if own is not None:
                console.print(f"  On {own.label} instead of the data sets of the study", markup=False)
            for note in own.notes if own else ():
                console.print(f"  {note}", markup=False)
            try:
                with terminal.Progress(quiet if as_json else _console(stderr=True)) as progress:
                    result = run_study(
                        ref,
                        scale=scale.value,
                        seeds=_parse_seeds(seeds),
                        contenders=_split(contenders),
                        datasets=_split(datasets),
                        own=own,
                        jobs=jobs,
                        backend=backend.value,
                        address=address,
                        threads=threads,
                        timeout=timeout,
                        store=opened,
                        fresh=fresh,
                        on_event=progress.on_event,
                    )
            except RunInterrupted as stop:  # typer would end without a word
                raise _Stopped(str(stop)) from stop
            except ImportError as missing:
                if not everything:
                    raise
                n_failed += 1
                print(f"paperworks: {missing}", file=sys.stderr)
                continue
            last = result.run
            n_failed += result.n_failed
            console.print(terminal.result_view(loaded, result))
            if as_json:
                printed.append(
                    {
                        **terminal.run_to_json(result.run),
                        "left_out": list(result.left_out),
                        "reused": result.n_reused,
                        "trials": [terminal.trial_to_json(t) for t in opened.trials(result.run.id)],
                    }
                )
        if as_json:
            _print_json(printed if everything else printed[0])
        if last is not None and not no_report:
            page = _write_report(opened, report_dir, None if everything else last)
            console.print(f"Report: {page}", markup=False, soft_wrap=True)
    if n_failed:
        raise typer.Exit(1)


def _own_file(
    study: Any, data: Path | None, target: str | None, encoding: str | None, drop: list[str] | None
) -> OwnFile | None:
    if data is None:
        for option, value in (("--target", target), ("--encoding", encoding), ("--drop", drop)):
            if value:
                raise _usage(f"{option} goes with --data FILE")
        return None
    if study.own_data is None:
        raise _usage(f"study {study.slug!r} does not take a file of your own")
    from paperworks.datasets import own_file

    return own_file(
        data,
        kind=study.own_data.kind,
        task=study.own_data.task,
        target=target,
        encoding=encoding,
        drop=tuple(drop or ()),
    )


def _split(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise _usage(f"expected names with commas between, got {text!r}")
    return names


def _parse_seeds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if match is None:
            raise _usage(f"--seeds takes numbers and ranges such as 0-7 or 0,3,5; got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise _usage(f"--seeds: the range {part.strip()} runs backwards")
        seeds.extend(range(first, last + 1))
    return list(dict.fromkeys(seeds))


def _write_report(store: Store, folder: Path, run: RunRecord | None = None) -> Path:
    from paperworks.bench.card import all_cards
    from paperworks.bench.report.site import build_site

    shown = run.id if run else None
    return build_site(store, folder, run=shown, cards=all_cards(), benchmarks=_speed_folder())


def _speed_folder() -> Path | None:
    """Return the folder of measured speed ratios, if the command is run in a checkout that has one."""
    folder = Path("benchmarks/results")
    return folder if folder.is_dir() else None


@app.command()
def report(
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("paperworks-report"),
    store: StoreOption = None,
) -> None:
    """Write static HTML pages of everything stored."""
    with _open_store(store) as opened:
        page = _write_report(opened, out)
    _console().print(f"Report: {page}", markup=False, soft_wrap=True)


@app.command()
def find(
    problem: Annotated[list[str], typer.Argument(help="The problem in your own words.")],
    limit: Annotated[int, typer.Option(min=1, help="Length of the list.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Methods for a problem told in plain words."""
    from paperworks.bench.card import all_cards
    from paperworks.bench.find import finder
    from paperworks.bench.report import terminal

    matches = finder().find(" ".join(problem), limit)
    if as_json:
        _print_json([{"slug": m.slug, "score": m.score, "because": list(m.because)} for m in matches])
    else:
        _console().print(terminal.matches_view(matches, all_cards()))


@app.command()
def compare(
    before: Annotated[int, typer.Argument(min=1, help="Number of the first run.")],
    after: Annotated[int, typer.Argument(min=1, help="Number of the second run.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """What changed between two runs of a study, and whether it is more than chance."""
    from paperworks.bench.comparison import compare_stored
    from paperworks.bench.report import terminal

    with _open_store(store) as opened:
        found = compare_stored(opened, before, after)
    if as_json:
        _print_json(found)
    else:
        _console().print(terminal.differences_view(found))


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8765,
    token: Annotated[
        str | None, typer.Option(envvar="PAPERWORKS_TOKEN", help="Secret for uploads and runs; made up if needed.")
    ] = None,
    max_upload: Annotated[float, typer.Option(min=0.001, help="Largest upload in MB.")] = 50.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trials at a time; all cores by default.")] = None,
    store: StoreOption = None,
) -> None:
    """Pages, live runs and a JSON API over the store, at an address of this machine."""
    from paperworks.web.server import serve_store

    console = _console()
    serve_store(
        store,
        host=host,
        port=port,
        token=token,
        max_upload_mb=max_upload,
        jobs=jobs,
        benchmarks=_speed_folder(),
        say=lambda line: console.print(line, markup=False, soft_wrap=True),
    )


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="File to write: .parquet or .csv.")],
    study: Annotated[str | None, typer.Option(help="Only this study.")] = None,
    store: StoreOption = None,
) -> None:
    """Write every stored metric of every trial to one table."""
    with _open_store(store) as opened:
        count = opened.export(out, study=study)
    _console().print(f"{count} rows written to {out}", markup=False, soft_wrap=True)


@app.command()
def doctor(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Versions, extras, store and backends; what is missing and how to install it."""
    from paperworks.bench import doctor as examine
    from paperworks.bench.report import terminal

    findings = examine.examine(store)
    if as_json:
        _print_json(findings)
    else:
        _console().print(terminal.doctor_view(findings))


@data_app.command("list")
def data_list(
    kind: Annotated[DataKind | None, typer.Option(help="Only this kind.")] = None,
    as_json: JsonOption = False,
) -> None:
    """All data sets: kind, shape, licence, whether they are here."""
    from paperworks import datasets
    from paperworks.bench.report import terminal

    rows = [_dataset_row(name) for name in datasets.names(kind.value if kind else None)]
    if as_json:
        _print_json(rows)
    else:
        _console().print(terminal.datasets_table(rows))


@data_app.command("info")
def data_info(name: str, as_json: JsonOption = False) -> None:
    """One data set: source, licence, shape."""
    from paperworks.bench.report import terminal

    row = _dataset_row(name)
    if as_json:
        _print_json(row)
    else:
        _console().print(terminal.record_view(row))


@data_app.command("get")
def data_get(
    name: str,
    out: Annotated[Path | None, typer.Option(help="Write the table here: .csv or .parquet.")] = None,
) -> None:
    """Load a data set, downloading it if need be; write it to a file with --out."""
    from paperworks import datasets

    loaded = datasets.load(name)
    console = _console()
    if out is None:
        console.print(f"{name} is ready: paperworks.datasets.load({name!r})", markup=False)
        return
    if not isinstance(loaded, datasets.Table):
        raise _usage(f"--out writes tables; {name} is of kind {datasets.info(name).kind}")
    frame = loaded.X.assign(**{loaded.target: loaded.y})
    if out.suffix == ".csv":
        frame.to_csv(out, index=False)
    elif out.suffix == ".parquet":
        frame.to_parquet(out, index=False)
    else:
        raise _usage(f"--out writes .csv or .parquet, got {out.name!r}")
    console.print(f"{name} written to {out}: {len(frame)} rows", markup=False, soft_wrap=True)


def _dataset_row(name: str) -> dict[str, Any]:
    from paperworks import datasets
    from paperworks.bench.catalog import missing_distributions

    record = datasets.info(name)
    missing = missing_distributions(record.requires)
    state = f"needs {record.install}" if missing else f"from {record.host}" if record.host else "here"
    return {
        "name": record.name,
        "kind": record.kind,
        "task": record.task,
        "shape": record.shape,
        "licence": record.licence,
        "available": state,
        "source": record.source,
        "description": record.description,
    }


class _Stopped(Exception):
    """The user stopped a run; the message says what is stored."""


def _usage(message: str) -> Exception:
    error: Exception = _UsageError(message)
    return error


def _is_for_user(error: Exception) -> bool:
    """Whether the message is written for the user: bad input, unknown names, missing extras, no store or cluster."""
    from paperworks.bench.executors import ExecutorError
    from paperworks.bench.store import StoreError

    known = (ValueError, ImportError, OSError, _UsageError, ExecutorError, StoreError)
    return isinstance(error, known) or type(error) is LookupError


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    sys.exit(_run([arg for arg in args if arg != "--debug"], debug))


def _run(args: list[str], debug: bool) -> int:
    try:
        code = typer.main.get_command(app).main(args, prog_name="paperworks", standalone_mode=False)
        sys.stdout.flush()
        if code == _INTERRUPTED:
            raise _Stopped("interrupted")
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        # The reader of the pipe has gone (`| head`): that is no error of ours, and nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (_Stopped, KeyboardInterrupt, typer.Abort) as stop:
        print(f"paperworks: {str(stop) or 'interrupted'}", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        if debug:
            raise
        if isinstance(error, _UsageError):
            message = error.format_message()  # type: ignore[attr-defined]
        else:
            message = str(error)
        message = " ".join(message.split()) or type(error).__name__
        if _is_for_user(error):
            print(f"paperworks: {message}", file=sys.stderr)
            return 2
        print(f"paperworks: unexpected {type(error).__name__}: {message} (--debug shows where)", file=sys.stderr)
        return 1


if __name__ == "__main__":
    main()
