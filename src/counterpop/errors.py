"""One tree of errors: every failure a user can cause is a `CounterpopError` with one clear sentence."""


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
