"""What needs a process of its own: peak memory, and cost over long streams."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

CHUNK = 1 << 16
_STREAM = """
import json, sys, time
import numpy as np
import fadecount as fc

def memory(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))

items, chunk = int(sys.argv[1]), int(sys.argv[2])
before = memory("VmRSS")
mechanism = fc.Gradual(epsilon=0.1, exponent=2.0)
block = np.ones(chunk, dtype=np.int64)
fc.Counter(mechanism).extend(block)
rounds, spent, started = 0, 0, time.process_time_ns()
while spent < 10**8:  # some clocks of the processor are coarse
    counter = fc.Counter(mechanism)
    while counter.time < items:
        counter.extend(block[: items - counter.time])
    rounds, spent = rounds + 1, time.process_time_ns() - started
each = spent / rounds / items
print(json.dumps({"items": items, "bytes": memory("VmHWM") - before, "ns_per_item": each}))
"""


def memory_of_streams(lengths: list[int]) -> list[dict[str, Any]]:
    """Peak memory above what the imports need, for streams of these lengths in chunks of 65,536
    items."""
    return [json.loads(_python(_STREAM, str(length), str(CHUNK))) for length in lengths]


def cost_of_streams(lengths: list[int], *, repeats: int) -> list[dict[str, Any]]:
    """The cost per item of streams of these lengths, all in chunks of the shortest: what grows is
    the stream alone."""
    found = []
    for length in lengths:
        rounds = repeats if length <= 10**6 else 1
        runs = [json.loads(_python(_STREAM, str(length), str(min(lengths)))) for _ in range(rounds)]
        found.append(
            {"items": length, "ns_per_item": statistics.median(run["ns_per_item"] for run in runs)}
        )
    return found


def _python(code: str, *arguments: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout
