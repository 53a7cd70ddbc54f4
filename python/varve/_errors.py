"""The classes of errors, which the C++ part makes; their types are spelled out for tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:

    class Error(Exception):
        """An error whose sentence says where, what was found and what was expected."""

    class UsageError(Error, ValueError):
        """The caller asked for something contradictory or unknown."""

    class InputError(Error, ValueError):
        """A network, samples or a file is broken or does not fit the rest."""

    class ResourceError(Error, RuntimeError):
        """Memory does not suffice, or a device is missing or failed."""

else:
    from ._core import Error, InputError, ResourceError, UsageError

__all__ = ["Error", "InputError", "ResourceError", "UsageError"]
