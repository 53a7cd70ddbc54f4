"""The classes of errors."""

from __future__ import annotations

import errno
import os

from . import _core


class Error(Exception):
    """An error whose sentence says where, what was found and what was expected."""


class UsageError(Error, ValueError):
    """The caller asked for something contradictory or unknown."""


class InputError(Error, ValueError):
    """A network, samples or a file is broken or does not fit the rest. If a file is missing, also a FileNotFoundError."""

    def __new__(cls, *args: object) -> InputError:
        is_missing = cls is InputError and len(args) == 1 and str(args[0]).endswith(os.strerror(errno.ENOENT))
        if is_missing or issubclass(cls, FileNotFoundError):
            return FileNotFoundError.__new__(MissingFileError if is_missing else cls, *args)
        return super().__new__(cls, *args)


class MissingFileError(InputError, FileNotFoundError):
    """A file is missing."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.errno, self.strerror = errno.ENOENT, os.strerror(errno.ENOENT)

    def __str__(self) -> str:
        return str(self.args[0])


class ResourceError(Error, RuntimeError):
    """Memory does not suffice, or a device is missing or failed."""


for _kind in (Error, UsageError, InputError, MissingFileError, ResourceError):
    _kind.__module__ = "varve"  # as users name them
_core.set_error_classes(UsageError, InputError, ResourceError)
