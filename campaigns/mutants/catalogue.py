"""The mutants: a text of the source that occurs exactly once, what to write instead, and the tests
that should object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEFINITION = ("tests/counters/test_definition.py",)
EXACTNESS = ("tests/noise/test_exactness.py",)
DISTRIBUTION = ("tests/noise/test_distribution.py",)
PREFIX = ("tests/noise/test_prefix_table.py",)
GAUSSIAN = ("tests/mechanisms/test_gaussian.py",)
GENERATOR = ("tests/noise/test_generator.py",)
LOSS = ("tests/mechanisms/test_exact_sum.py", "tests/mechanisms/test_exact_loss.py")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to break the source; ``path`` is below ``src/fadecount``."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Break the copy of the source below a folder. A text that is not there exactly once is an
        error of the catalogue."""
        file = root / "src" / "fadecount" / self.path
        text = file.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            raise ValueError(
                f"mutant {self.name!r}: its text must occur once in {self.path}, got {found} times;"
                " adapt the mutant"
            )
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")


LEVELS, SCHEDULE = "mechanisms/level_budgets.py", "mechanisms/schedule.py"
CURVE, FADING = "service/fading_curve.py", ("tests/service/test_fading_curve.py",)
PATH, COUNTER, GRID = "counters/path.py", "counters/counter.py", "counters/grid.py"
LAPLACE, SOURCE, TABLE, WORDS = (
    "noise/laplace.py",
    "noise/source.py",
    "noise/laplace.py",
    "noise/generator.py",
)

BLOCKS, BLOCK_COUNTERS = "counters/blocks.py", ("tests/counters/test_block_counters.py",)
BLOCK_LOSS = ("tests/mechanisms/test_blocks.py",)

MUTANTS = (
    Mutant(
        "scale halved",
        "mechanisms/noise_law.py",
        "math.ldexp(1.0 / budget *",
        "math.ldexp(0.5 / budget *",
        DEFINITION,
    ),
    Mutant(
        "level off by one",
        LEVELS,
        "rounded_power(1 + level,",
        "rounded_power(2 + level,",
        DEFINITION,
    ),
    Mutant(
        "interval index t - 1",
        PATH,
        "round_number, clock >> level)",
        "round_number, clock - 1 >> level)",
        DEFINITION,
    ),
    Mutant(
        "clock starts one late",
        PATH,
        "shown = self.shown + 1",
        "shown = self.shown + 2",
        DEFINITION,
    ),
    Mutant(
        "a variable redrawn at a block's border",
        PATH,
        "begun = start << level < first",
        "begun = False",
        DEFINITION,
    ),
    Mutant(
        "a variable redrawn at every step",
        PATH,
        "newest = (clock & -clock).bit_length() - 1",
        "newest = min(clock.bit_length() - 1, (clock & -clock).bit_length())",
        DEFINITION,
    ),
    Mutant(
        "a level dropped",
        PATH,
        "            if law is not None:\n                above = above + draw(",
        "            if law is not None and level != 2:\n                above = above + draw(",
        DEFINITION,
    ),
    Mutant(
        "a level dropped in blocks",
        PATH,
        "if law is not None and len(new)",
        "if law is not None and len(new) > 1",
        DEFINITION,
    ),
    Mutant("delay + 1", LEVELS, "delay=mechanism.delay)", "delay=mechanism.delay + 1)", DEFINITION),
    Mutant(
        "delay - 1",
        LEVELS,
        "delay=mechanism.delay)",
        "delay=max(0, mechanism.delay - 1))",
        DEFINITION,
    ),
    Mutant(
        "noise shared between keys",
        SOURCE,
        "return draws.reshape(len(rounds), len(nodes), width)",
        "return np.repeat(draws.reshape(len(rounds), len(nodes), width)[:, :, :1], width, axis=2)",
        (
            "tests/counters/test_statistics.py",
            "tests/counters/test_limits.py",
            "tests/audit/test_audit.py",
        ),
    ),
    Mutant(
        "clamp of reals missing",
        GRID,
        "if not bool(np.all((reals >= 0.0) & (reals <= 1.0))):",
        "if not bool(np.all(reals == reals)):",
        ("tests/counters/test_bad_input.py",),
    ),
    Mutant(
        "floating-point noise: nothing certified",
        LAPLACE,
        "unsettled = (upper < self._margin) | (bits < self._smallest)",
        "unsettled = np.zeros(len(words), dtype=bool)",
        EXACTNESS,
    ),
    Mutant("small words not settled", LAPLACE, " | (bits < self._smallest)", "", EXACTNESS),
    Mutant(
        "centre of the law missing",
        LAPLACE,
        "context.ln(Decimal(2))), self._centre(context)",
        "context.ln(Decimal(2))), Decimal(0)",
        EXACTNESS,
    ),
    Mutant(
        "sign bit stuck in words",
        LAPLACE,
        "np.bitwise_and(words, 1,",
        "np.bitwise_and(words, 0,",
        EXACTNESS,
    ),
    Mutant(
        "sign bit stuck in the table",
        TABLE,
        "[magnitudes, -magnitudes]",
        "[magnitudes, magnitudes]",
        PREFIX,
    ),
    Mutant(
        "cells with a boundary taken for known",
        TABLE,
        "_CELLS - 1)] = UNDETERMINED",
        "_CELLS - 1)] += 0",
        PREFIX,
    ),
    Mutant(
        "the rest of a draw forgets its prefix",
        TABLE,
        "wide >> 1 << 49 | further",
        "further",
        PREFIX,
    ),
    Mutant(
        "resume forgets the noise in use",
        COUNTER,
        "self._path.tails = [own(row) for row in parts.tails]",
        "self._path.tails = [own(0 * row) for row in parts.tails]",
        DEFINITION,
    ),
    Mutant(
        "resume redraws a variable",
        COUNTER,
        "self._path.shown = max(0, parts.time - self._delay)",
        "self._path.shown = max(0, parts.time - self._delay - 1)",
        DEFINITION,
    ),
    Mutant(
        "generator repeated after fork",
        WORDS,
        "return self._left > 0 and self.lineage is Lineage.current and self.process == os.getpid()",
        "return self._left > 0",
        GENERATOR,
    ),
    Mutant(
        "prefetched draws repeated after fork",
        WORDS,
        "os.register_at_fork(after_in_child=Lineage.renew)",
        "",
        GENERATOR,
    ),
    Mutant(
        "threads share a generator",
        WORDS,
        "_local = threading.local()",
        "_local = Lineage()",
        GENERATOR,
    ),
    Mutant("one key for ever", WORDS, "        self._left -= size\n", "", GENERATOR),
    Mutant(
        "a batch given out twice",
        SOURCE,
        "block[:count], block[count:]",
        "block[:count], block",
        (*PREFIX, *DISTRIBUTION),
    ),
    Mutant(
        "last level not continued",
        LEVELS,
        "return self.budgets[min(level, len(self.budgets) - 1)]",
        "return (*self.budgets, *([float('inf')] * 99))[level]",
        DEFINITION,
    ),
    Mutant(
        "loss rounded down",
        "mechanisms/exact_sum.py",
        "np.where(self.low > 0, np.nextafter(self.high, np.inf), self.high)",
        "self.high",
        LOSS,
    ),
    Mutant(
        "loss of a whole interval too small", LEVELS, "min(2.0 * costs[-1],", "min(costs[-1],", LOSS
    ),
    Mutant(
        "Refresh's past noise reused", PATH, "CARRY, round_number, 0)]", "CARRY, 1, 0)]", DEFINITION
    ),
    Mutant(
        "past noise missing in whole rounds",
        PATH,
        "self._tree(rounds, 1, self._length, [carry], rooms)",
        "self._tree(rounds, 1, self._length, [0 * carry], rooms)",
        DEFINITION,
    ),
    Mutant(
        "sum may wrap",
        GRID,
        "if largest > self.largest_sum or smallest < -self.largest_sum:",
        "if False:",
        ("tests/counters/test_limits.py",),
    ),
    Mutant(
        "a failed block leaves its mark",
        PATH,
        "                noise, tails = self._tree(\n",
        "                noise, self._tails = self._tree(\n",
        ("tests/counters/test_blocks.py", *DEFINITION),
    ),
    Mutant(
        "Gaussian noise halved",
        "mechanisms/memories.py",
        "math.ldexp(sigma, unit_bits)",
        "math.ldexp(0.5 * sigma, unit_bits)",
        GAUSSIAN,
    ),
    Mutant(
        "a larger unit of Gaussian noise taken for one",
        "mechanisms/gaussian.py",
        "self._mu(ages, float(sensitivity))",
        "self._mu(ages)",
        GAUSSIAN,
    ),
    Mutant(
        "keys of a Gaussian unit forgotten",
        "mechanisms/gaussian.py",
        "math.sqrt(keys * histories)",
        "math.sqrt(histories)",
        GAUSSIAN,
    ),
    Mutant(
        "one key too many of a person",
        "streams/unit.py",
        "if keys >= self.keys:",
        "if keys > self.keys:",
        ("tests/streams/test_inputs.py",),
    ),
    Mutant(
        "rejected Gaussian places kept",
        "noise/gaussian.py",
        "rejected = (~accepted).nonzero()[0]",
        "rejected = accepted.nonzero()[0][:0]",
        ("tests/noise/test_gaussian.py",),
    ),
    Mutant(
        "a memory not halved by single steps",
        "counters/memory_path.py",
        "number >>= shift  # of zeros",
        "number >>= 0  # of zeros",
        ("tests/counters/test_memories.py",),
    ),
    # losses that add up
    Mutant(
        "powers that wrap",
        "mechanisms/memories.py",
        "_product(found, table[places % len(table)], _POWER_BITS)",
        "(found * table[places % len(table)]) >> _POWER_BITS",
        GAUSSIAN,
    ),
    Mutant(
        "no loss at a delta taken for nothing",
        CURVE,
        "if not loss.amount:",
        "if not loss.epsilon:",
        FADING,
    ),
    Mutant(
        "units of a person counted once",
        "mechanisms/gaussian.py",
        "* units * math.sqrt(",
        "* math.sqrt(",
        FADING,
    ),
    Mutant(
        "visits late in their time",
        "streams/forks.py",
        "np.arange(later + during, later, -every,",
        "np.arange(later + during - every, later - every, -every,",
        FADING,
    ),
    Mutant(
        "the last visits forgotten",
        "streams/forks.py",
        "+ during, later, -every,",
        "+ during, later + every, -every,",
        FADING,
    ),
    Mutant(
        "the present tick of releases ahead forgotten",
        "streams/forks.py",
        "// tick_seconds) - 1 if later",
        "// tick_seconds) if later",
        FADING,
    ),
    # What enters a stream: amounts held to the unit, large counts capped without expanding them.
    Mutant(
        "an amount above the unit's counted",
        "streams/inputs.py",
        "if not 0 <= smallest <= largest <= most:",
        "if not 0 <= smallest <= largest:",
        ("tests/streams/test_inputs.py",),
    ),
    Mutant(
        "the amount of an event taken for a sum",
        "streams/inputs.py",
        "if unit.amount > 1 and largest is None:",
        "if unit.amount > 1 and largest is None and person is not None:",
        ("tests/streams/test_inputs.py",),
    ),
    Mutant(
        "a count that passes the cap taken whole",
        "streams/unit.py",
        "taken = min(events, self.events - before)",
        "taken = events if before < self.events else 0",
        ("tests/streams/test_inputs.py",),
    ),
    Mutant(
        "sums of inputs that wrap",
        "counters/grid.py",
        "np.where(rough < 1.5 * most, np.minimum(sums, most), most)",
        "sums",
        ("tests/streams/test_inputs.py",),
    ),
    Mutant(
        "an amount that the client does not send",
        "service/client.py",
        'each = {} if amount == 1 else {"amount": amount}',
        "each: dict[str, int] = {}",
        ("tests/service/test_client.py",),
    ),
    # The fence, histories, requests, and threads that end
    Mutant(
        "the fence forgets places",
        "streams/fence.py",
        "sorted(self.places)",
        "sorted(self.places)[:0]",
        ("tests/streams/test_lost_store.py",),
    ),
    Mutant(
        "earlier places forgotten",
        "streams/fence.py",
        "each.mark.places | (before.places if before else frozenset())",
        "each.mark.places",
        ("tests/streams/test_lost_store.py",),
    ),
    Mutant(
        "a lost stream published again",
        "streams/fence.py",
        "if uid not in known and mark.steps:",
        "if False:",
        ("tests/streams/test_lost_store.py",),
    ),
    Mutant(
        "an unpublished stream keeps its name",
        "streams/fence.py",
        "replace(mark, commit_id=GIVEN_UP)",
        "mark",
        ("tests/streams/test_lost_store.py",),
    ),
    Mutant(
        "two new stores at one place",
        "streams/store.py",
        "one sees the other's mark\n            claim(context, self._uid, name)",
        "one sees the other's mark",
        ("tests/streams/test_lost_store.py",),
    ),
    Mutant(
        "one history fewer",
        "streams/forks.py",
        "return self._total(max(ends) - step, len(ends))",
        "return self._total(max(ends) - step, max(1, len(ends) - 1))",
        ("tests/streams/test_forks.py",),
    ),
    Mutant(
        "a stream that begins with its first event",
        "streams/store.py",
        "            if start_tick is None:\n                raise",
        "            start_tick = start_tick or 0\n            if False:\n                raise",
        ("tests/test_runs.py",),
    ),
    Mutant(
        "the writing thread ends without a sign",
        "service/writer.py",
        """type(error).__name__)
            self.give_up()""",
        """type(error).__name__)""",
        ("tests/service/test_writer.py",),
    ),
    Mutant(
        "a failed rotation keeps its locks",
        "streams/database.py",
        "held.callback(self.unlock, name)",
        "pass",
        ("tests/streams/test_seal.py",),
    ),
    # Rows that decide nothing about one another, ranges of time, and tables.
    Mutant(
        "one irregular line makes its whole block irregular",
        "sources/frames.py",
        "    return regular\n\n\ndef _is_utf8",
        "    return regular & regular.all()\n\n\ndef _is_utf8",
        ("tests/sources/test_frames.py",),
    ),
    Mutant(
        "a quote that its line does not close pairs with one of the next",
        "sources/frames.py",
        "        regular &= paired\n",
        "",
        ("tests/neighbours/test_messy.py",),
    ),
    Mutant(
        "NaN is a person",
        "sources/rows.py",
        "if not math.isfinite(value):",
        "if False:",
        ("tests/sources/test_frames.py",),
    ),
    Mutant(
        "a person has another name among floats",
        "sources/frames.py",
        "return whole.cast(pl.String)\n",
        "return values.cast(pl.String)\n",
        ("tests/sources/test_frames.py",),
    ),
    Mutant(
        "a missing cell of a pandas frame is text",
        "sources/frames.py",
        "None if missing else _cell(value)",
        "_cell(value)",
        ("tests/test_runs.py",),
    ),
    Mutant(
        "a time outside the calendar stops all rows",
        "sources/frames.py",
        "    local = _where(local, local.is_between(EARLIEST - 86_400, LATEST + 86_400))\n",
        "",
        ("tests/sources/test_frames.py",),
    ),
    Mutant(
        "the end of a range is in it",
        "streams/published.py",
        "end = end if until is None else min(until, end)",
        "end = end if until is None else min(until + 1, end)",
        ("tests/streams/test_reader.py",),
    ),
    Mutant(
        "figures behind another header",
        "streams/export.py",
        "and not _begins_with(path, kind)",
        "and False",
        ("tests/cli/test_run.py",),
    ),
    Mutant(
        "true and false as Python writes them",
        "streams/export.py",
        "str(value).lower() if isinstance(value, bool) else value",
        "value",
        ("tests/service/test_figures.py",),
    ),
    Mutant(
        "a header taken for a backlog",
        "sources/live.py",
        "no backlog\n                self._position = max(self._position, arrival.position)\n",
        "no backlog\n",
        ("tests/neighbours/test_neighbours.py",),
    ),
    Mutant(
        "rows unpacked as a compressed file",
        "sources/frames.py",
        "pl.scan_csv(head + fast, separator",
        "pl.scan_csv(fast, has_header=False, separator",
        ("tests/neighbours/test_messy.py",),
    ),
    Mutant(
        "a store moved to the place of a lost one",
        "streams/fence.py",
        "if uid != status.uid and other.steps:",
        "if False:",
        ("tests/streams/test_lost_store.py",),
    ),
    Mutant(
        "a tiny epsilon taken for 0",
        "mechanisms/gaussian_law.py",
        "<= delta * (1.0 - 1e-12)",
        "<= delta * (1.0 + 1e-12)",
        GAUSSIAN,
    ),
    # The service's working side: one writer, tokens in the database, one cache of answers.
    Mutant(
        "large requests committed together",
        "service/writer.py",
        "room -= self._jobs[0].keys if group else 0",
        "room -= 0",
        ("tests/service/test_writer.py",),
    ),
    Mutant(
        "waiting batches not bounded",
        "service/writer.py",
        "full = self._bytes + job.bytes > self._limits.waiting_bytes",
        "full = self._bytes < 0",
        ("tests/service/test_writer.py",),
    ),
    Mutant(
        "events counted in a tick that is over",
        "service/writer.py",
        "None if ahead else ticks.at(now)",
        "None",
        ("tests/service/test_leader.py",),
    ),
    Mutant(
        "an expired token accepted",
        "service/tokens.py",
        'and marker == "fc" and self.is_valid(grant)',
        'and marker == "fc"',
        ("tests/service/test_tokens.py",),
    ),
    Mutant(
        "tokens of an old copy accepted",
        "service/tokens.py",
        "return time.monotonic() - self._replaced < LONGEST_AGE",
        "return True",
        ("tests/service/test_tokens.py",),
    ),
    Mutant(
        "an answer of the tick before kept",
        "service/reader_pool.py",
        "if kept is None or kept.version != version:",
        "if kept is None:",
        ("tests/service/test_fairness.py",),
    ),
    Mutant(
        "variables of others break the service",
        "cli/serve.py",
        'default if given.startswith("tcp://") else given',
        'default if given == "tcp://" else given',
        ("tests/service/test_settings.py",),
    ),
    # Runs without a store, and the two readers of CSV.
    Mutant(
        "a one-off run counts a person without a cap",
        "runs.py",
        'if unit.of == "event" or unit.takes(self._persons, person, key)',
        "if True",
        ("tests/test_runs.py",),
    ),
    Mutant(
        "a one-off run caps a person over all ticks",
        "runs.py",
        "        self._persons.clear()\n",
        "",
        ("tests/test_runs.py",),
    ),
    Mutant(
        "a one-off run counts its open tick twice",
        "runs.py",
        "        self._counts[:] = 0\n",
        "",
        ("tests/test_runs.py",),
    ),
    Mutant(
        "a promise for one event in a one-off run of persons",
        "runs.py",
        "mechanism = unit.scaled(mechanism, planned_for_persons=planned_for_persons)",
        "mechanism = unit.scaled(mechanism, planned_for_persons=True)",
        ("tests/test_runs.py",),
    ),
    Mutant(
        "a source that fails looks like one that ends",
        "sources/live.py",
        "arrivals.put(None if closed else error)",
        "arrivals.put(None)",
        ("tests/sources/test_live.py",),
    ),
    # The plan page, designs and keyed noise
    Mutant(
        "a foreign host is served",
        "cli/_plan_page.py",
        'self.headers.get("Host") not in self.server.hosts',
        'self.headers.get("Host") is None',
        ("tests/cli/test_plan_page.py",),
    ),
    Mutant(
        "a design is not checked",
        "planning/certify.py",
        "if excess(limits, smaller.schedule.budgets) <= 1:",
        "if True:",
        ("tests/planning/test_design.py",),
    ),
    Mutant(
        "further words of another node",
        "noise/keyed.py",
        "blocks[:, 0] ^= names[node]",
        "blocks[:, 0] ^= names[0]",
        ("tests/noise/test_keyed.py",),
    ),
    Mutant(
        "keyed draws from a table lose their signs",
        "noise/keyed.py",
        "0xFFFE) | some & np.uint64(1)",
        "0xFFFE)",
        ("tests/noise/test_keyed.py",),
    ),
    Mutant(
        "further words of another round",
        "noise/keyed.py",
        "_encrypted(keys[each], blocks[chosen])",
        "_encrypted(keys[0], blocks[chosen])",
        ("tests/noise/test_keyed.py",),
    ),
    Mutant(
        "a mark moved from anywhere",
        "streams/fence.py",
        "if (before.commit_id if before else None) != each.expected:",
        "if before is not None and each.expected is None:",
        ("tests/streams/test_marks.py",),
    ),
    Mutant(
        "a first mark over another one",
        "streams/fence.py",
        "elif not database.change(_INSERT, (*row, each.mark.name)):",
        "elif not (database.change(_INSERT, (*row, each.mark.name)) or True):",
        ("tests/streams/test_marks.py",),
    ),
    Mutant(
        "a damaged mark believed",
        "streams/fence.py",
        "if bytes(digest) != _digest(uid, text):",
        "if False:",
        ("tests/streams/test_marks.py",),
    ),
    Mutant(
        "a fence that was moved away is written on",
        "streams/fence.py",
        "self._database.broken or there != self._connected_to",
        "self._database.broken",
        ("tests/streams/test_marks.py",),
    ),
    Mutant(
        "another format is opened",
        "streams/database.py",
        "if rows and rows[0][0] != str(FORMAT):",
        "if False:",
        ("tests/streams/test_backup.py",),
    ),
    Mutant(
        "rows of a deleted stream stay",
        "streams/store.py",
        "for table in STREAM_TABLES:",
        "for table in STREAM_TABLES[:-1]:",
        ("tests/streams/test_contract.py",),
    ),
    Mutant(
        "a backup replaces a file",
        "streams/backup.py",
        "    if path.exists():\n        raise _exists(path)\n    checkpoint",
        "    path.unlink(missing_ok=True)\n    checkpoint",
        ("tests/streams/test_backup.py",),
    ),
    # The outer side of the service
    Mutant(
        "a second list of events replaces the first",
        "service/parsing.py",
        """max(body.count(b'"events"'), body.count(b'"person"')) > 1""",
        "False",
        ("tests/service/test_parsing.py",),
    ),
    Mutant(
        "a list under a name with escapes replaces the first",
        "service/parsing.py",
        """if b"\\\\" in body or""",
        "if",
        ("tests/service/test_parsing.py",),
    ),
    Mutant(
        "equal events counted once",
        "service/parsing.py",
        "event.count * times, event.amount",
        "event.count, event.amount",
        ("tests/service/test_parsing.py",),
    ),
    Mutant(
        "a repeated request on the same connection",
        "service/client.py",
        "http = self._open() if paused else nullcontext(self._http)",
        "http = nullcontext(self._http)",
        ("tests/service/test_client.py",),
    ),
    Mutant(
        "a deletion repeated is an error",
        "service/client.py",
        'response.status_code == 404 and method == "DELETE" and attempt',
        "False",
        ("tests/service/test_administration.py",),
    ),
    Mutant(
        "what is sent before an answer is read",
        "service/protocol.py",
        """        if self._is_unanswered():
            raise OverflowError""",
        """        if False:
            raise OverflowError""",
        ("tests/service/test_connections.py",),
    ),
    Mutant(
        "a live reader gets without end what it has seen",
        "service/live.py",
        "through > after",
        "through >= after",
        ("tests/service/test_live.py",),
    ),
    Mutant(
        "answers that nobody reads add up",
        "service/protocol.py",
        "if cycle.flow.write_paused:",
        "if False:",
        ("tests/service/test_slow_clients.py",),
    ),
    Mutant(
        "an answer kept until after it can change",
        "service/read_routes.py",
        "int(due) - 1",
        "int(due) + 1",
        ("tests/service/test_figures.py",),
    ),
    Mutant(
        "what is public now said to be what was public then",
        "service/read_routes.py",
        "published.total(as_of=asked.as_of)",
        "published.total()",
        ("tests/service/test_figures.py",),
    ),
    Mutant(
        "a token of one stream opens another",
        "service/routes.py",
        'call.grant.require_stream(call.path_params.get("name"))',
        "pass",
        ("tests/service/test_access.py",),
    ),
    # Runs: windows, and plans for persons.
    Mutant(
        "windows of half ticks are refused after the release",
        "cli/run.py",
        "under_way.check_per(per)",
        "pass",
        ("tests/cli/test_run.py",),
    ),
    Mutant(
        "a plan for persons is scaled a second time",
        "streams/unit.py",
        "if planned_for_persons:",
        "if False:",
        ("tests/cli/test_run.py",),
    ),
    Mutant(
        "a history forgets what of persons was accepted meanwhile",
        "runs.py",
        "self._noted = self._stream.persons_noted",
        "self._noted = None",
        ("tests/test_runs.py",),
    ),
    # A tick that is published moves what readers have in memory.
    Mutant(
        "a published tick that readers do not see",
        "service/reader_pool.py",
        "self._versions[name] = self._versions.get(name, 0) + 1",
        "pass",
        ("tests/service/test_fairness.py",),
    ),
    Mutant(
        "keys declared later not read",
        "service/reader_pool.py",
        "(before.status.uid, len(before.keys)) == (status.uid, status.width)",
        "before.status.uid == status.uid",
        ("tests/service/test_fairness.py",),
    ),
    # Sums at their bound.
    Mutant(
        "accepted counts that wrap with given ones",
        "streams/stream.py",
        "add_up(counts, slice(1), each.rows[:1])",
        "counts += each.rows[:1]",
        ("tests/streams/test_inputs.py",),
    ),
    Mutant(
        "counts without a store that wrap with given ones",
        "runs.py",
        "add_up(inputs[0], slice(None), self._counts)",
        "inputs[0] += self._counts",
        ("tests/test_runs.py",),
    ),
    # Block counters
    Mutant(
        "a block's lag one short",
        BLOCKS,
        "return max(0, step - self.lags[stage]) // self.length",
        "return max(0, step - self.lags[stage] + 1) // self.length",
        BLOCK_COUNTERS,
    ),
    Mutant(
        "loss of a lag one late",
        "mechanisms/blocks.py",
        'np.searchsorted(lags, ages, side="right")',
        'np.searchsorted(lags, ages, side="left")',
        BLOCK_LOSS,
    ),
    Mutant(
        "budget of a neighbour level",
        BLOCKS,
        "[scale_of(stage.epsilon, bits) for stage in level.stages]",
        "[scale_of(mechanism.levels[number - 1].epsilon, bits) for _ in level.stages]",
        BLOCK_COUNTERS,
    ),
    Mutant(
        "a stage with fresh noise",
        "noise/chain.py",
        "noises.append(noises[-1] + drawn(self._differences[stage], stage))",
        "noises.append(drawn(DiscreteLaplace(self._differences[stage].scale), stage))",
        ("tests/noise/test_chain.py",),
    ),
    Mutant(
        "a tie announced late",
        BLOCKS,
        "return end - level.length + 1, 0, -number, 0",
        "return end, 0, -number, 0",
        BLOCK_COUNTERS,
    ),
    Mutant(
        "a tie on a later stage's noise",
        BLOCKS,
        "difference = level.noise[0] - level.children.total(level.ratio)",
        "difference = level.noise[-1] - level.children.total(level.ratio)",
        BLOCK_COUNTERS,
    ),
    Mutant(
        "a cover that counts blocks twice",
        "mechanisms/views.py",
        "[(everywhere, low, inner_low), (everywhere, inner_high, high)]",
        "[(everywhere, low, inner_low), (everywhere, inner_low, high)]",
        ("tests/mechanisms/test_views.py",),
    ),
    Mutant(
        "a difference shared with a key that was declared later",
        "mechanisms/views.py",
        "inside & (starts >= self.since) & ~np.isin(ends, gone)",
        "inside & ~np.isin(ends, gone)",
        ("tests/mechanisms/test_views.py",),
    ),
    Mutant(
        "the difference of a block that never came out",
        "mechanisms/views.py",
        "inside & (starts >= self.since) & ~np.isin(ends, gone)",
        "inside & (starts >= self.since)",
        ("tests/mechanisms/test_views.py",),
    ),
    # Figures in streams.
    Mutant(
        "a figure that becomes public with its block",
        "counters/figures.py",
        "public = ends + level.stages[stage].lag",
        "public = ends + 0 * level.stages[stage].lag",
        ("tests/counters/test_figures.py",),
    ),
    Mutant(
        "a void block that is published",
        "counters/figures.py",
        "and not (each is first and before.void)",
        "and True",
        ("tests/counters/test_figures.py",),
    ),
    Mutant(
        "a figure that is out a tick before its time",
        "streams/machine.py",
        "made.public, end - begin, side",
        "made.public, end - begin + 1, side",
        ("tests/streams/test_block_streams.py",),
    ),
    Mutant(
        "an embargo that ends a tick early",
        "streams/embargo.py",
        "AND public_tick <= ? RETURNING",
        "AND public_tick - 1 <= ? RETURNING",
        ("tests/streams/test_block_streams.py",),
    ),
    Mutant(
        "counts that could wrap",
        "streams/machine.py",
        "np.minimum(rows, largest_count(ticks))",
        "rows",
        ("tests/streams/test_block_streams.py",),
    ),
    Mutant(
        "noise ahead that meets another history",
        "streams/fence.py",
        'context.database.change("DELETE FROM ratchets WHERE stream = ?", (status.id,))',
        "pass",
        ("tests/streams/test_voids.py",),
    ),
    Mutant(
        "a backup with noise that is drawn ahead",
        "streams/sqlite.py",
        'target.execute("DELETE FROM ratchets")',
        "pass",
        ("tests/streams/test_backup.py", "tests/streams/test_voids.py"),
    ),
    Mutant(
        "a reader that can select everything",
        "streams/sqlite.py",
        "if action == sqlite3.SQLITE_READ and private else 0",
        "if False else 0",
        ("tests/streams/test_block_streams.py",),
    ),
    Mutant(
        "figures removed while they are still needed",
        "streams/retention.py",
        "out = last + 1 - first - mechanism.levels[level + 1].stages[-1].lag",
        "out = last + 1 - first - mechanism.levels[level + 1].stages[0].lag",
        ("tests/streams/test_retention_of_blocks.py",),
    ),
    Mutant(
        "new rules of a zone move old days",
        "streams/calendar.py",
        "for day in range(self.through, through):",
        "for day in range(self.through - 400, through):",
        ("tests/streams/test_calendar.py",),
    ),
    Mutant(
        "a log that is never emptied",
        "streams/sqlite.py",
        "if time.monotonic() - self._scrubbed >= SCRUB_SECONDS:",
        "if False:",
        ("tests/streams/test_destruction.py",),
    ),
    Mutant(
        "a public time that may be changed in the store",
        "streams/embargo.py",
        "{first_tick}/{end_tick}/{public_tick}",
        "{first_tick}/{end_tick}/",
        ("tests/streams/test_block_streams.py",),
    ),
    Mutant(
        "noise ahead of another commit",
        "streams/state.py",
        "or (self.ahead != status.ahead and not lost)",
        "or False",
        ("tests/streams/test_block_streams.py",),
    ),
    Mutant(
        "children of a void block that are removed",
        "streams/retention.py",
        "if void == level + 1 and end <= wanted and _stands_for(status, void, end):",
        "if False:",
        ("tests/streams/test_retention_of_blocks.py",),
    ),
    Mutant(
        "children of an older block under the names of others",
        "counters/figures.py",
        "(fresh,) = self._fresh(number - 1, starts, len(starts))",
        "(fresh,) = self._fresh("
        "number - 1, self.calendar.frontier(number - 1, self.time), len(starts))",
        ("tests/counters/test_figures.py",),
    ),
    Mutant(
        "children drawn again after a saved state",
        BLOCKS,
        "state = None if saved is None else next(saved)",
        "state = None if saved is None else next(saved) and None",
        BLOCK_COUNTERS,
    ),
    Mutant(
        "noise drawn ahead that stays",
        "noise/ratchet.py",
        "return waiting.pop()",
        "return waiting[-1]",
        ("tests/noise/test_chain.py",),
    ),
    Mutant(
        "listed noise that stays",
        "noise/ratchet.py",
        "self.next: Callable[[], int] = noises.pop",
        "self.next: Callable[[], int] = lambda: noises[-1]",
        ("tests/noise/test_chain.py",),
    ),
    Mutant(
        "noise given to two blocks",
        "noise/source.py",
        "del block[-count:]",
        "del block[: -len(block)]",
        ("tests/noise/test_chain.py",),
    ),
    Mutant(
        "a count that is not carried up",
        BLOCKS,
        "above.open = above.open + count",
        "above.open = above.open",
        BLOCK_COUNTERS,
    ),
    Mutant(
        "budgets of blocks rounded up for a larger unit",
        "mechanisms/blocks.py",
        "math.floor(budget * Fraction(factor))",
        "math.ceil(budget * Fraction(factor))",
        BLOCK_LOSS,
    ),
    # Budgets scaled for a larger unit or an error
    Mutant(
        "a larger unit's budgets rounded to the nearest",
        "mechanisms/base.py",
        "while divisor > 1 and not _fits(found.schedule, self.schedule, divisor):",
        "while divisor > 1 and found is self:",
        ("tests/mechanisms/test_sensitivity.py",),
    ),
    Mutant(
        "an error above the one asked for",
        "mechanisms/base.py",
        "mse(horizon, resolution_bits=resolution_bits) <= mse",
        "mse(horizon, resolution_bits=resolution_bits) <= 1.001 * mse",
        ("tests/mechanisms/test_error.py",),
    ),
    # Planned block counters
    Mutant(
        "a lag one short",
        "planning/blocks.py",
        "*(age + 1 for age, _ in limits[:-1])",
        "*(age for age, _ in limits[:-1])",
        ("tests/planning/test_blocks.py",),
    ),
    Mutant(
        "budgets rounded up",
        "planning/budgets.py",
        "math.floor(each * MILLION)",
        "math.ceil(each * MILLION) + 1",
        ("tests/planning/test_blocks.py",),
    ),
    Mutant(
        "rest given beyond later caps",
        "planning/budgets.py",
        "+= min(left)",
        "+= max(left)",
        ("tests/planning/test_blocks.py",),
    ),
    Mutant(
        "a check that overlooks later stages",
        "planning/blocks.py",
        "pairwise((Stage(0, 0), *level.stages))",
        "pairwise((Stage(0, 0), level.stages[0]))",
        ("tests/planning/test_blocks.py",),
    ),
    Mutant(
        "keys of a person are forgotten",
        "planning/blocks.py",
        "return person.events * person.keys * periods",
        "return person.events * periods",
        ("tests/planning/test_design.py",),
    ),
    Mutant(
        "a plan with levels that no stream can publish",
        "planning/blocks.py",
        "and BlockLength.of_ticks(each, tick_seconds)",
        "and tick_seconds",
        ("tests/planning/test_blocks.py",),
    ),
    Mutant(
        "what is lost by a later stage is that of the first",
        "planning/published.py",
        "loss=loss(stage.lag)",
        "loss=loss(level.lag)",
        ("tests/planning/test_plan.py",),
    ),
    Mutant(
        "ties weigh nothing",
        "planning/chains.py",
        "above / below * square[head]",
        "0.0 * square[head]",
        ("tests/planning/test_blocks.py",),
    ),
    Mutant(
        "the paper's algorithm is never taken",
        "planning/design.py",
        "for each in (blocks, gradual) if",
        "for each in (blocks or gradual,) if",
        ("tests/planning/test_design.py",),
    ),
)
