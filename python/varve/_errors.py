"""The classes of errors."""

from __future__ import annotations

from . import _core


class Error(Exception):
    """An error whose sentence says where, what was found and what was expected."""


class UsageError(Error, ValueError):
    """The caller asked for something contradictory or unknown."""


class InputError(Error, ValueError):
    """A network, samples or a file is broken or does not fit the rest."""


class ResourceError(Error, RuntimeError):
    """Memory does not suffice, or a device is missing or failed."""


for _kind in (Error, UsageError, InputError, ResourceError):
    _kind.__module__ = "varve"  # as users name them
_core.set_error_classes(UsageError, InputError, ResourceError)
