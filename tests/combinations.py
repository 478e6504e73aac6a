"""Of tests marked `pairwise`, the combinations of parameters that hold every pair of values.

Faults come of one value, or of two that meet; five engines with five layouts, four losses and two
types are 200 combinations, and 25 of them hold each pair. ``--every-combination`` runs all.
"""

from itertools import combinations_with_replacement


def pytest_addoption(parser):
    """Add the option that leaves nothing out."""
    parser.addoption(
        "--every-combination",
        action="store_true",
        help="run tests marked pairwise with every combination of their parameters",
    )


def pytest_collection_modifyitems(config, items):
    """Leave out the combinations that no pair of values needs."""
    if config.getoption("--every-combination"):
        return
    of_a_test = {}
    for item in items:
        if item.get_closest_marker("pairwise") is not None and hasattr(item, "callspec"):
            of_a_test.setdefault((item.path, item.cls, item.originalname), []).append(item)
    left_out = {item for same in of_a_test.values() for item in set(same) - set(needed(same))}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def needed(items):
    """Return some of one test's items, in order, that hold every pair of values of all."""
    pairs = {item: _pairs(item) for item in items}
    missing, chosen = set().union(*pairs.values()), []
    while missing:
        best = max(items, key=lambda item: len(pairs[item] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return sorted(chosen, key=items.index)


def _pairs(item):
    """Return the pairs of values, those of one list of parameters together, by what they are."""
    params = item.callspec.params
    lists = [mark.args[0] for mark in item.iter_markers("parametrize")]
    lists = [each.replace(" ", "").split(",") if isinstance(each, str) else each for each in lists]
    together = {name for names in lists for name in names}
    lists += [[name] for name in params if name not in together]  # of fixtures
    values = [(*names, *(id(params[name]) for name in names)) for names in lists]
    return set(combinations_with_replacement(sorted(values), 2))
