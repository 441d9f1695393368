"""Time the cases of a method and write ``benchmarks/results/<slug>.json``, which the HTML report shows."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pkgutil
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import Case

RESULTS = Path(__file__).parent / "results"


def measure(case: Case, *, repeats: int, budget: float) -> dict[str, Any]:
    """Time both calls in turns and return medians and the ratio peer / ours.

    Parameters
    ----------
    case : Case
        The comparison.
    repeats : int
        Greatest number of timed turns; at least three are made.
    budget : float
        Seconds after which no further turn begins.

    Returns
    -------
    dict
        ``ours_seconds``, ``peer_seconds`` (medians), ``ratio`` (median of the ratios turn by turn; above 1 means that
        ours is faster) and its quartiles ``ratio_low``, ``ratio_high``.
    """
    case.ours()  # warm-up: imports, compilation, caches
    case.peer()
    ours: list[float] = []
    peer: list[float] = []
    start = time.perf_counter()
    while len(ours) < 3 or (len(ours) < repeats and time.perf_counter() - start < budget):
        order = [(case.ours, ours), (case.peer, peer)]
        for call, times in order if len(ours) % 2 == 0 else reversed(order):
            times.append(_seconds(call))
    ratios = [p / o for o, p in zip(ours, peer, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "name": case.name,
        "peer": case.peer_name,
        "ours_seconds": statistics.median(ours),
        "peer_seconds": statistics.median(peer),
        "ratio": statistics.median(ratios),
        "ratio_low": low,
        "ratio_high": high,
        "repeats": len(ours),
        "note": case.note,
    }


def _seconds(call: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks named on the command line, or all of them."""
    known = sorted(
        module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name[0] != "_"
    )
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("methods", nargs="*", help=f"any of: {', '.join(known)} (default: all)")
    parser.add_argument("--repeats", type=int, default=15, help="greatest number of turns a case (default 15)")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds a case may take (default 20)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the JSON files")
    args = parser.parse_args(argv)
    names = [name.replace("-", "_") for name in args.methods] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no benchmark for {', '.join(unknown)}; known: {', '.join(known)}")
    for name in names:
        print(f"{name}")
        cases = []
        for case in importlib.import_module(f"benchmarks.{name}").cases():
            row = measure(case, repeats=args.repeats, budget=args.budget)
            cases.append(row)
            line = (
                f"  {row['name']}: {row['ours_seconds']:.4g} s, {row['peer']} {row['peer_seconds']:.4g} s, "
                f"ratio {row['ratio']:.3g} [{row['ratio_low']:.3g}, {row['ratio_high']:.3g}] {row['note']}"
            )
            print(line.rstrip(), flush=True)
        args.out.mkdir(parents=True, exist_ok=True)
        slug = name.replace("_", "-")
        record = {
            "slug": slug,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "cases": cases,
        }
        (args.out / f"{slug}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
