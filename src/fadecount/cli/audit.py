"""Audit a mechanism as an outsider would: what its outputs really show.

Runs the mechanism many times on two streams that differ in one event, looks
for the event of outputs that tells them apart best, and prints a lower bound
on the loss (Clopper and Pearson) beside the loss claimed. The exit status is
1 if the outputs show more than is claimed.

examples:
  fadecount audit --epsilon 1
  fadecount audit --epsilon 0.5 --exponent 2 --ages 0,1,7
  fadecount audit --plan plan.json --samples 4000000 --json
  fadecount audit --epsilon 1 --running noisier-or-not.json
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from fadecount.cli._options import (
    JSON_OPTION,
    add_mechanism_options,
    add_options,
    plan_from,
    steps_from,
)
from fadecount.cli._output import aligned, json_text, progress
from fadecount.rounding import rounded_up


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_mechanism_options(parser)
    add_options(
        parser,
        ("--ages", "AGE,...", "ages to audit, in steps (default: %(default)s)", "0,1,3,7"),
        ("--samples", "N", "runs on each stream and age (default: %(default)s)", 400_000),
        ("--false-alarm", "P", "chance to refute a true claim (default: %(default)s)", 1e-6),
        ("--running", "FILE", "JSON file of what really runs, if it is not what is claimed", str),
        JSON_OPTION,
    )


def run(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from fadecount.audit import audit
    from fadecount.mechanisms import PlanFile

    mechanism = plan_from(arguments).mechanism
    running = PlanFile.read(arguments.running).mechanism if arguments.running else None
    ages = [steps_from(text, None, name="--ages") for text in arguments.ages.split(",")]
    with progress("auditing", total=2 * arguments.samples * len(ages)) as advance:
        findings = audit(
            mechanism,
            ages,
            samples=arguments.samples,
            false_alarm=arguments.false_alarm,
            running=running,
            progress=advance,
        )
    refuted = any(finding.refuted for finding in findings)
    if arguments.json:
        about = {
            "mechanism": json.loads(mechanism.to_json()),
            "false_alarm": arguments.false_alarm,
            "refuted": refuted,
            "findings": [{**asdict(one), "refuted": one.refuted} for one in findings],
        }
        print(json_text(about))
    else:
        _print(mechanism, findings, arguments.samples, arguments.false_alarm)
    return 1 if refuted else 0


def _print(mechanism: object, findings: list[Any], samples: int, false_alarm: float) -> None:
    print(
        f"{mechanism}\n{samples:,} runs on each of two streams per age; false alarm at most"
        f" {false_alarm:g}\n"
    )
    rows = [("age", "position", "claimed", "shown", "share", "verdict")]
    for one in findings:
        share = f"{one.shown / one.claimed:.0%}" if one.claimed else "-"
        losses = rounded_up(one.claimed, 4), f"{one.shown:.4f}", share
        verdict = "REFUTED" if one.refuted else "holds"
        rows.append((f"{one.age}", f"{one.position}", *losses, verdict))
    print(*aligned(rows, ">>>>><"), sep="\n")
