"""What an object works out once, when it is first asked for.

The property of Python 3.11's `functools` has one lock for all objects of a class: fits of two
threads wait for each other, and a process that is forked during one of them waits for ever. Python
3.12's has none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property  # noqa: TID251 - here it has none
else:

    class cached_property:
        """Keep what a method returns in the object, under the method's name.

        Two threads that ask at once may both run it; what either returns is as good.
        """

        def __init__(self, method: Callable[[Any], Any]) -> None:
            self._method = method
            self.__doc__ = method.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Return the value, or from the class the property itself."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._method(instance)
            return value
