"""Results do not move unless NUMBERS does: every method, loss, backbone and engine against a recorded run."""

from __future__ import annotations

import json

import pytest

from counterpop.numbers import NUMBERS
from golden import CASES, PATH, Case, digest_of, kind_of_cpu, run, values_of, why_not

GOLDEN = json.loads(PATH.read_text())
MOVED = (
    f"results moved, but NUMBERS is still {NUMBERS}. If that was not intended, find out why; if it was, raise "
    "NUMBERS in src/counterpop/numbers.py, run `python tests/golden.py`, and describe the change in CHANGELOG.md"
)
NATIVE = [case for case in CASES if case.has_digest]


def test_the_record_is_of_these_numbers() -> None:
    recorded = GOLDEN["numbers"]
    assert recorded == NUMBERS, f"golden.json is of NUMBERS {recorded}, the code of {NUMBERS}: run tests/golden.py"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_as_recorded(case: Case) -> None:
    if reason := why_not(case):
        pytest.skip(reason)
    recorded = GOLDEN["values"].get(str(case))
    if recorded is None and case.engine == "cuda":
        pytest.skip("not recorded yet: run `python tests/golden.py` on a machine with a GPU")
    assert recorded is not None, "not recorded yet: run `python tests/golden.py`"
    found = values_of(run(case))
    assert found.keys() == recorded.keys()
    for name, value in found.items():
        assert value == pytest.approx(recorded[name], abs=1e-4, rel=1e-4), f"{name}: {MOVED}"


@pytest.mark.parametrize("case", NATIVE, ids=str)
def test_native_runs_repeat_to_the_last_bit(case: Case) -> None:
    """On kinds of CPU that are recorded: others round differently, because compiled code uses all they have."""
    recorded = GOLDEN["digests"].get(kind_of_cpu())
    if recorded is None:
        pytest.skip(f"no digests are recorded for this kind of CPU ({kind_of_cpu()})")
    assert digest_of(run(case)) == recorded[str(case)], MOVED
