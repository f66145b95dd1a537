"""The text of the report, as HTML. Numbers are filled in where they are known."""

from __future__ import annotations


def _flowing(text: str) -> str:
    return " ".join(text.split())


INTRODUCTION = tuple(
    _flowing(text)
    for text in (
        """Every figure and table of the evaluation in Andersson, Henzinger, Pagh, Steiner and
        Upadhyay, “Continual Counting with Gradual Privacy Expiration” (NeurIPS 2024), recomputed,
        and then measured with real noise.""",
        """How to read the curves. The <em>privacy loss</em> at an age is what all outputs so far
        reveal about an item that many steps old: no observation is more than e<sup>loss</sup> times
        likelier with the item than without it. The paper has a <em>theorem</em>, an upper bound for
        every position, and an <em>empirical</em> loss: for each age the costliest of all positions
        j with j + age ≤ T, where the cost of [j, j + age] is the sum of the budgets of the
        intervals that cover it exactly. Both come from one way to shift the noise.""",
        """The solid lines are the <em>exact loss</em>: the cheapest of all ways to shift the noise,
        with a matching lower bound. It is what an optimal observer can really learn, not a bound on
        it. The noise is the same; only the accounting is better: at most half of the theorem. For
        refreshing, the paper charges an item for all nodes of its round at once, the exact loss
        only for those published.""",
    )
)

SENTENCES = {
    name: _flowing(text)
    for name, text in {
        "fig2a": (
            """The paper's empirical loss stays below its theorem; the exact loss of the same noise
            is nowhere above it, and at most half of the theorem at every age. The empirical loss
            dips where a range has a cheap cover; the exact one never falls, as it must. Just after
            a power of two the closed form lies below the sum that it summarizes, but nowhere below
            the exact loss."""
        ),
        "fig2b": (
            """At the same mean squared error a larger λ loses less about young items and more about
            old ones. For each λ the exact loss is nowhere above the other two lines."""
        ),
        "fig2c": (
            """Within a round the loss grows slowly; from then on every round adds one past budget,
            without end: a straight line, which bends upward on a logarithmic axis of ages. The
            exact loss starts lower, because nodes not yet published cost nothing."""
        ),
        "fig3": (
            """Refreshing loses little for a while; then one past budget a round adds up, linearly
            in the age, while the loss of Algorithm 3 grows like a power of the logarithm. {ends}
            All five have the same mean squared error."""
        ),
        "fig4a": (
            """With the ratio chosen to lose least by the horizon the shape stays: linear in the
            age. The printed pairs and the true minimizers (Table 1) lie close together."""
        ),
        "fig4b": (
            """The optimal ratio lowers the loss of old items and pays with a loss of several units
            about new ones; it stays linear in the age. {ends} λ = 1 loses less than either refresh
            at every age."""
        ),
        "head_start": (
            """All lines of one λ have the same mean squared error. From the theorem to the exact
            loss only the accounting changes. With a head start of m the clock starts at
            2<sup>m</sup>: the first outputs have the error of later ones, and every item loses
            less."""
        ),
    }.items()
}

GAINED_TEXT = tuple(
    _flowing(text)
    for text in (
        """The privacy loss (ε) of the oldest item, at a mean squared error of 1000 over 10⁶ steps.
        Of all head starts m the table has the one with the least loss.""",
        """The root mean squared error at the same loss. The last row is the least error for a year
        of minutes with a loss of at most 0.5 after an hour, 2 after 30 days and 4 after a year: by
        the best λ under the theorem, by a design, and by a design with a head start.""",
    )
)

TABLE_TEXT = tuple(
    _flowing(text)
    for text in (
        """The budgets at which each mechanism has a mean squared error of 1000 over the first T
        outputs, with continuous noise. With a fixed ratio they agree with the paper to the digits
        printed.""",
        """For the optimal ratio the stated objective is ε<sub>cur</sub> + (N &minus;
        1)·ε<sub>past</sub>, with N = ⌈T/W⌉ rounds, at that error. The printed pairs meet the error
        but do not minimize this objective: the minimizer has ε<sub>past</sub>/ε<sub>cur</sub> =
        (V<sub>past</sub>/(V<sub>tree</sub>·(N &minus; 1)))<sup>1/3</sup>, where the error is
        V<sub>tree</sub>/ε<sub>cur</sub>² + V<sub>past</sub>/ε<sub>past</sub>². Both are shown with
        their values. The conclusions of the comparison are the same for either.""",
    )
)

MEASURED_TEXT = tuple(
    _flowing(text)
    for text in (
        """The budgets above are computed for a mean squared error of 1000; here it is measured.
        Every run is a counter of the library from the first step to step T, on fresh noise. The
        noise is on the integers, whose variance is slightly below that of the continuous noise of
        the calibration: “forecast” is the exact expectation for it. {inside} of {count} intervals
        hold the forecast; each misses it by chance with probability about {miss}. “Largest error”
        is what two thirds of the runs kept at every one of the T steps, and the bound beside it is
        proved to hold for at least as many.""",
        """Below, Algorithm 3 with the delay of Corollary 1, B = ⌈log<sub>2</sub>(T)/ε⌉, on a stream
        of ones, of which a delay misses the most. No mechanism with the same loss curve can keep an
        error below the lower bound (Theorem 4.1) at all T steps with probability 2/3. “Corollary 1”
        is the paper's bound with its constants, B + &nu;·√(8 ln(2T/β)); “our bound” takes the best
        exponent in Chernoff's inequality; both with β = 1/3. The measured errors lie between.""",
    )
)
