"""The errors and the checks that raise them."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fadecount import checks, errors


def test_one_base_class_catches_everything() -> None:
    found = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, Exception)
    ]
    assert len(found) >= 6
    assert all(issubclass(each, errors.FadecountError) for each in found)
    assert all(each.__doc__ for each in found)


def test_the_usual_python_classes_catch_them_too() -> None:
    assert issubclass(errors.ParameterError, ValueError)
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.SavedStateError, ValueError)
    assert issubclass(errors.SumOverflowError, OverflowError)


def test_a_message_names_parameter_bound_value_and_remedy() -> None:
    with pytest.raises(errors.ParameterError) as refused:
        checks.require_real("exponent", -1, low=0.0, high=64.0, remedy="1 gives logarithmic fading")
    assert (
        str(refused.value)
        == "exponent must be between 0 and 64, got -1; 1 gives logarithmic fading"
    )
    with pytest.raises(
        errors.ParameterError,
        match=r"delay must be an integer from 0 to 2\*\*40, got 1.5; 0 means none",
    ):
        checks.require_integer("delay", 1.5, minimum=0, maximum=1 << 40, remedy="0 means none")
    with pytest.raises(errors.ParameterError, match="to 9, got"):
        checks.require_integer("digit", 10, minimum=0, maximum=9, remedy="take another")
    with pytest.raises(errors.ParameterError, match="strictly between 0 and 1"):
        checks.require_real("beta", 0, low=0.0, high=1.0, open_ends=True, remedy="take another")


@pytest.mark.parametrize(
    "value",
    [np.zeros((50, 50)), "x" * 1000, "two\nlines", 10**5000, [None] * 99],
    ids=lambda value: type(value).__name__,
)
def test_a_message_is_short_and_on_one_line(value: Any) -> None:
    for message in (
        str(errors.bad_parameter("name", value, "a number", "try one")),
        _refused(value),
    ):
        assert "\n" not in message
        assert len(message) < 160


def _refused(value: Any) -> str:
    with pytest.raises(errors.ParameterError) as refused:
        checks.require_integer("name", value, minimum=0, maximum=9, remedy="try one")
    return str(refused.value)


def test_numbers_of_other_types_are_taken() -> None:
    assert checks.require_integer("n", np.int8(3), minimum=0, maximum=9, remedy="") == 3
    assert type(checks.require_integer("n", np.int8(3), minimum=0, maximum=9, remedy="")) is int
    for half in (0.5, np.float32(0.5), Fraction(1, 2), np.array(0.5)):
        value = checks.require_real("x", half, low=0.0, high=1.0, remedy="")
        assert value == 0.5
        assert type(value) is float


def test_what_is_no_number_is_refused() -> None:
    bad: Any
    for bad in (
        True,
        np.False_,
        "1",
        b"1",
        None,
        math.nan,
        [1],
        np.array([1]),
        1j,
        10**400,
        object(),
    ):
        with pytest.raises(errors.ParameterError):
            checks.require_real("x", bad, low=0.0, high=2.0, remedy="")
        with pytest.raises(errors.ParameterError):
            checks.require_integer("n", bad, minimum=0, maximum=2, remedy="")
