"""Tests marked pairwise meet every pair of their parameters' values, and lists stay whole."""

from itertools import combinations, product
from types import SimpleNamespace

import pytest
from combinations import needed

LISTS = {
    "loss, n_outputs": [("logistic", 1), ("squared", 1), ("squared", 3)],
    "layout": ["dense", "sparse", "ones", "F"],
    "dtype": ["float32", "float64"],
}


class Item:
    """What pytest collects, as far as the choice asks."""

    def __init__(self, lists, fixtures, values):
        self.lists, self.values = lists, values
        names = [name for names in (*lists, *fixtures) for name in names.split(", ")]
        flat = [each for value in values for each in (value if value in PAIRS else [value])]
        self.callspec = SimpleNamespace(params=dict(zip(names, flat, strict=True)))

    def iter_markers(self, _):
        return (SimpleNamespace(args=(names,)) for names in self.lists)


PAIRS = LISTS["loss, n_outputs"]


def items(lists, fixtures):
    values = product(*lists.values(), *fixtures.values())
    return [Item(lists, fixtures, each) for each in values]


@pytest.mark.parametrize("fixtures", [{}, {"device": ["cpu", "gpu", "store"], "threads": [1, 2]}])
def test_every_pair_is_there_and_few_are_needed(fixtures):
    def pairs(some):
        return {pair for item in some for pair in combinations(enumerate(item.values), 2)}

    every = items(LISTS, fixtures)
    chosen = needed(every)
    assert chosen == [item for item in every if item in chosen]
    assert pairs(chosen) == pairs(every)
    assert len(chosen) <= 16 < len(every)


def test_a_test_of_two_lists_keeps_all():
    two = dict(list(LISTS.items())[:2])
    every = items(two, {})
    assert needed(every) == every
