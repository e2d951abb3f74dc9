"""Which version of our results this code gives."""

NUMBERS = 4
"""Raise it by one whenever the same settings, data and seed give other results, even in the last digit.

Cached results (`counterpop paper`) carry it in their key, so results of an older version are made again. The golden
runs guard it: tests/test_golden.py fails if results moved and NUMBERS did not. After raising it, record them again
with `python tests/golden.py` and describe the change in the *Numbers* section of CHANGELOG.md.
"""
