"""One tree of errors: every failure a user can cause is a `CounterpopError` with one clear sentence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CounterpopError(Exception):
    """What must hold, what was got, what to do. The commands print it as it is and exit with 1."""


class InputError(CounterpopError, ValueError):
    """A file, table or argument that cannot be used as it is."""


class UnknownIdError(InputError):
    """An outside id that the log or the model does not hold."""


class ArtifactError(CounterpopError):
    """A saved folder that is missing, damaged, or written by a newer version."""


class CounterpopWarning(UserWarning):
    """Something to know about the data that does not stop the work."""


def check_settings(given: Iterable[str], settings: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raises `InputError` if a keyword is not among the settings; it suggests the name that is most like it.

    `others` are further keywords of the same function, which are only suggested.

    >>> check_settings(["epoch"], ["dim", "epochs"])
    Traceback (most recent call last):
    counterpop.errors.InputError: 'epoch' is not a setting; did you mean 'epochs'? There are dim, epochs
    """
    names = list(settings)
    for name in given:
        if name not in names:
            near = get_close_matches(name, [*names, *others], n=1)
            rest = f"did you mean {near[0]!r}? There are" if near else "there are"
            raise InputError(f"{name!r} is not a setting; {rest} {', '.join(names)}")
