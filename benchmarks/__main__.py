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
    ours = [*cases.counters(), *cases.draws(), *cases.keyed_draws()]
    ours += cases.block_counters()
    work = [cases.floor(), *ours, peers.textbook(), *peers.peers(_say)]
    results = interleaved(work, repeats=arguments.repeats)
    _say("memory of long streams")
    memory = processes.memory_of_streams(lengths[2:])
    _say("cost of long streams")
    growth = processes.cost_of_streams(lengths, repeats=arguments.repeats)
    _say("times of draws")
    correlations = leaks.correlations(singles=200_000, batches=5_000)

    checks = _speed_checks(results) + _stream_checks(memory, growth)
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
    }
    report.save(arguments.out, {"machine": machine, **content, "correlations": correlations})
    _say(f"written to {arguments.out}")
    return 0 if all(check.kept for check in checks) else 1


def _speed_checks(results: list[Result]) -> list[Check]:
    found = {each.name: each for each in results}
    bounds = (
        (cases.counters(), (0.5, 0.6, 0.6, 40.0)),
        (cases.block_counters(), (0.6, 0.6, 0.6, 2300.0, 1.5, 40.0)),  # a step of blocks: 60 µs
    )
    checks = [
        Check(name=case.name, value=found[case.name].floors, must=must, unit=" floors")
        for measured, most in bounds
        for case, must in zip(measured, most, strict=True)
    ]
    (exact,) = (found[case.name] for case in cases.draws())
    opendp = next((each for each in results if each.name.startswith("opendp")), None)
    if opendp is not None:
        faster, name = opendp.median / 2.0 / exact.median, "exact draw in bulk, times opendp's"
        checks.append(Check(name=name, value=faster, must=500.0, unit=" x", at_least=True))
    return checks


def _stream_checks(memory: list[dict[str, float]], growth: list[dict[str, float]]) -> list[Check]:
    peak, first = memory[-1]["bytes"] / 2**20, memory[0]["bytes"] / 2**20
    grown = growth[-1]["ns_per_item"] / growth[0]["ns_per_item"]
    longest = f"{int(memory[-1]['items']):,} items"
    return [
        Check(name=f"peak memory of {longest} above import", value=peak, must=64.0, unit=" MiB"),
        Check(name="... and above that of 10^6 items", value=peak - first, must=2.0, unit=" MiB"),
        Check(name=f"cost per item of {longest} over 10^4", value=grown, must=1.3, unit=" x"),
    ]


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
