"""The live demo starts, releases the flights as they go by, and ends when asked."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import fadecount as fc

ROOT = Path(__file__).parents[2]


def test_the_demo_serves_moving_counts_and_ends_by_itself(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples" / "live_flights.py"),
        "--out",
        str(tmp_path),
        "--port",
        "0",
    ]
    demo = subprocess.Popen(
        [*words, "--seconds", "4", "--speed", "18000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout and demo.stderr
    address = next(found[0] for line in demo.stdout if (found := re.search(r"http://\S+", line)))
    with fc.Client(address) as client:
        *visits, name = sorted(each.name for each in client.streams())
        assert visits == ["localhost_pages", "localhost_visitors", "localhost_visits"]
        first = client.total(name)
        assert [each.key for each in first] == ["EWR", "JFK", "LGA"]
        days = client.figures(name, "1d", together=True)
        bands = {each.status: each.high - each.low for each in days if not each.partial}
        assert bands["final"] < bands["revised"] < bands["provisional"]
        while client.total(name)[0].end == first[0].end:
            time.sleep(0.05)
    _, wrong = demo.communicate(timeout=60)
    assert demo.returncode == 0 and wrong == ""
