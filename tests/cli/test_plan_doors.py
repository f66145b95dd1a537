"""Every plan that `plan` saves runs, and is served, and says whether it is for Spark: all pairs of
its options."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fadecount.cli.main import main
from fadecount.errors import ParameterError
from fadecount.mechanisms import PlanFile, Unit
from fadecount.service.parsing import NewStream
from fadecount.service.write_routes import _description
from fadecount.sources import SourceOptions

pytest.importorskip("pyspark")
from fadecount.spark import Stream

OPTIONS: dict[str, tuple[str, ...]] = {
    "tick": ("", "--tick 1h", "--tick 90m", "--tick 1d", "--tick 7d"),
    "loss": ("--loss 0=0.1 --loss 100=3", "--loss 30=1"),
    "error": ("", "--mean-error 500"),
    "delay": ("", "--delay 2"),
    "person": (
        "",
        "--per-person 3/tick",
        "--per-person 3/tick --keys-per-person 4",
        "--per-person 2/hour",
        "--per-person 4/day",
        "--per-person 20/month",
    ),
    "amount": ("", "--max-amount 5"),
    "option": ("--option 1", "--option 2", "--option 4"),
}
Chosen = dict[str, str]


def all_pairs() -> Iterator[Chosen]:
    """Choices in which every two values of two options meet: greedily, each with as many new pairs
    as it can hold."""
    missing = {
        frozenset({(one, first), (two, second)})
        for one, two in combinations(OPTIONS, 2)
        for first, second in product(OPTIONS[one], OPTIONS[two])
    }

    def news(chosen: Chosen, name: str, value: str) -> int:
        return sum(frozenset({each, (name, value)}) in missing for each in chosen.items())

    while missing:
        chosen = dict(min(missing, key=sorted))
        for name in [each for each in OPTIONS if each not in chosen]:
            values = {value: news(chosen, name, value) for value in OPTIONS[name]}
            chosen[name] = max(values, key=values.__getitem__)
        missing -= {frozenset(pair) for pair in combinations(chosen.items(), 2)}
        yield chosen


def test_every_plan_that_is_saved_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("at,page,who,n\n2026-03-02T10:10:00Z,a,ann,9\n")
    saved = refused = kept_from_spark = 0
    for number, chosen in enumerate(all_pairs()):
        file, words = f"plan{number}.json", " ".join(chosen.values()).split()
        code = main(["plan", *words, "--horizon", "100", "--save", file])
        said = capsys.readouterr()
        if code:
            assert not Path(file).exists() and said.err.count("\n") == 1, (chosen, said.err)
            refused += 1
            continue
        saved += 1
        on_spark = accepted(chosen, file, number)
        assert ("not for Spark" in said.out) != on_spark, chosen
        kept_from_spark += not on_spark
        capsys.readouterr()
    assert saved > 20 and refused > 5 and 0 < kept_from_spark < saved


def accepted(chosen: Chosen, file: str, number: int) -> bool:
    """The plan is run and served for its unit, and loses no more than it says. Return whether Spark
    takes it too."""
    tick = chosen["tick"].removeprefix("--tick ") or "1h"
    unit = f"{chosen['amount']} --amount n" if chosen["amount"] else ""
    unit += f" {chosen['person']} --person who" if chosen["person"] else ""
    words = f"--tick {tick} --time at --key page --keys a,b --start 2026-03-01 --until 2026-03-04"
    state = f"--state state --name s{number} --fence fence --output {number}.csv"
    assert main(["run", "visits.csv", *f"{words} {state} {unit} --plan {file}".split()]) == 0, (
        chosen
    )
    plan = msgspec.json.decode(Path(file).read_bytes())
    planned = PlanFile.read(file).unit
    caps: dict[str, Any] = {}
    if planned is not None:
        caps = {"amount": planned.amount, "events": planned.events, "keys": planned.keys}
        caps |= {"of": "person", "per": planned.per} if planned.of == "person" else {}
    body = {"name": "served", "tick": tick, "mechanism": plan, "unit": caps}
    served = _description(msgspec.convert(body, NewStream))
    for age, loss in plan["plan"]["option"]["curve"].items():
        assert served.loss.at_age(int(age)).epsilon <= loss * (1 + 1e-9), (chosen, age)
    return taken_by_spark(file, tick, served.unit)


def taken_by_spark(file: str, tick: str, unit: Unit) -> bool:
    """Whether a stream on Spark takes the plan as it is; if not, the mechanism or the unit is to
    blame. A stream needs no Java to be described."""
    about: dict[str, Any] = {"secret_file": "k", "state": "s"}
    about["start"] = "2026-03-05" if tick == "7d" else "2026-03-01"
    caps: dict[str, Any] = {"amount": "n", "max_amount": unit.amount} if unit.amount > 1 else {}
    if unit.of == "person":
        caps |= {"person": "who", "per_person": unit.events, "person_per": unit.per}
        caps["keys_per_person"] = unit.keys
    options = SourceOptions(tick=tick, time="at", key="page", keys=["a"], **caps)
    plan: Any = PlanFile.read(file)
    try:
        on_spark = Stream(plan, options, **about)
    except ParameterError as error:
        assert str(error).startswith(("mechanism must be fadecount.Blocks", "amount must be None"))
        return False
    assert on_spark.blocks == plan.mechanism
    return True
