"""``python -m benchmarks``: measure everything, print the tables and write JSON; 1 if a bound is
missed."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

from benchmarks import cases, leaks, peers, processes, report
from benchmarks.measure import Result, interleaved
from benchmarks.report import Check

LENGTHS = [10**4, 10**5, 10**6, 10**7, 10**8]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/bench"),
        metavar="FOLDER",
        help="where results go (%(default)s)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=15,
        metavar="N",
        help="rounds of each measurement (%(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="streams up to 10^6 items only")
    arguments = parser.parse_args(words)
    arguments.out.mkdir(parents=True, exist_ok=True)
    lengths = [each for each in LENGTHS if each <= 10**6 or not arguments.quick]

    _say("counters, draws and peers, interleaved")
    ours = [*cases.counters(), *cases.gaussian_counters(), *cases.draws(), *cases.keyed_draws()]
    ours += cases.block_counters()
    work = [cases.floor(), *ours, peers.textbook(), *peers.peers(_say)]
    results = interleaved(work, repeats=arguments.repeats)
    _say("memory of long streams")
    memory = processes.memory_of_streams(lengths[2:])
    _say("cost of long streams")
    growth = processes.cost_of_streams(lengths, repeats=arguments.repeats)
    _say("imports")
    imports = processes.import_times(repeats=arguments.repeats)
    _say("times of draws")
    correlations = leaks.correlations(singles=200_000, batches=5_000)

    checks = _speed_checks(results) + _stream_checks(memory, growth, imports)
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
    print(report.show(results, checks, correlations))
    content = {
        "results": results,
        "checks": checks,
        "memory": memory,
        "growth": growth,
        "imports": imports,
    }
    report.save(arguments.out, {"machine": machine, **content, "correlations": correlations})
    _say(f"written to {arguments.out}")
    return 1 if any(check.verdict == "MISSED" for check in checks) else 0


def _speed_checks(results: list[Result]) -> list[Check]:
    found = {each.name: each for each in results}
    scalar, rows, row, single = (found[case.name] for case in cases.counters())
    checks = [
        Check(name=scalar.name, value=scalar.floors, must=0.5, goal=0.25, unit=" floors"),
        Check(name=rows.name, value=rows.floors, must=0.6, goal=0.3, unit=" floors"),
        Check(name=row.name, value=row.floors, must=0.6, goal=0.3, unit=" floors"),
        Check(name=single.name, value=single.floors, must=40.0, goal=20.0, unit=" floors"),
    ]
    scalar, rows, row, gaussian = (found[case.name] for case in cases.gaussian_counters())
    broad, normal = (found[case.name] for case in cases.draws()[1:])
    checks += [
        Check(name=scalar.name, value=scalar.floors, must=3.0, goal=1.5, unit=" floors"),
        Check(name=rows.name, value=rows.floors, must=1.0, goal=0.7, unit=" floors"),
        Check(name=row.name, value=row.floors, must=1.0, goal=0.7, unit=" floors"),
        Check(
            name=f"{gaussian.name}, over Laplace",
            value=gaussian.median / single.median,
            must=2.0,
            goal=1.0,
            unit=" x",
        ),
        Check(
            name=f"{broad.name}, over numpy's",
            value=broad.median / normal.median,
            must=2.0,
            goal=1.0,
            unit=" x",
        ),
    ]
    scalar, rows, row, tied, untied = (found[case.name] for case in cases.block_counters())
    checks += [
        Check(name=scalar.name, value=scalar.floors, must=0.5, goal=0.25, unit=" floors"),
        Check(name=rows.name, value=rows.floors, must=0.3, goal=0.2, unit=" floors"),
        Check(name=row.name, value=row.floors, must=0.3, goal=0.2, unit=" floors"),
        Check(name=tied.name, value=tied.floors, must=50.0, goal=25.0, unit=" floors"),
        Check(name=untied.name, value=untied.floors, must=40.0, goal=25.0, unit=" floors"),
    ]
    opendp = next((each for each in results if each.name.startswith("opendp")), None)
    if opendp is not None:
        faster = opendp.median / 2.0 / found[cases.draws()[0].name].median
        name = "exact draw in bulk, times faster than opendp's"
        checks.append(
            Check(name=name, value=faster, must=500.0, goal=2000.0, unit=" x", at_least=True)
        )
    return checks


def _stream_checks(
    memory: list[dict[str, float]], growth: list[dict[str, float]], imports: dict[str, float]
) -> list[Check]:
    peak, first = memory[-1]["bytes"] / 2**20, memory[0]["bytes"] / 2**20
    grown = growth[-1]["ns_per_item"] / growth[0]["ns_per_item"]
    ours, needed = imports.values()
    longest = f"{int(memory[-1]['items']):,} items"
    return [
        Check(
            name=f"peak memory of {longest} above import",
            value=peak,
            must=64.0,
            goal=16.0,
            unit=" MiB",
        ),
        Check(name="... and above that of 10^6 items", value=peak - first, must=2.0, unit=" MiB"),
        Check(
            name=f"cost per item of {longest} over that of 10^4",
            value=grown,
            must=1.3,
            goal=1.0,
            unit=" x",
        ),
        Check(name="import, over numpy and AES", value=ours / needed, must=1.5, unit=" x"),
    ]


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
