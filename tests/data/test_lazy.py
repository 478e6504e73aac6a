"""Properties that are worked out once, by each object for itself."""

import threading

import pytest

from snapml._lazy import cached_property


class Slow:
    """Has a value that takes its time while it is waited for."""

    def __init__(self):
        self.begun, self.may_end, self.n_asked = threading.Event(), threading.Event(), 0

    @cached_property
    def value(self):
        """What it is."""
        self.n_asked += 1
        self.begun.set()
        assert self.may_end.wait(20.0)
        return self.n_asked


def test_no_object_waits_for_another():
    """Nor does a process that is forked in the meantime."""
    slow, quick = Slow(), Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.begun.wait(20.0)
    quick.may_end.set()
    found = []
    other = threading.Thread(target=lambda: found.append(quick.value), daemon=True)
    other.start()
    other.join(10.0)
    assert found == [1]
    slow.may_end.set()
    thread.join()
    assert slow.value == 1


def test_a_value_is_kept_and_the_class_has_the_property():
    quick = Slow()
    quick.may_end.set()
    assert (quick.value, quick.value, quick.n_asked) == (1, 1, 1)
    assert Slow.value.__doc__ == "What it is."
    quick.value = 5
    assert quick.value == 5
    with pytest.raises(AttributeError):
        Slow.values  # noqa: B018
