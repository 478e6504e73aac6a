"""Jobs of several ranks start once a module, not once for each of pytest-xdist's processes."""

import pytest


def pytest_itemcollected(item):
    """Keep the tests of a module together where the run says ``--dist loadgroup``."""
    item.add_marker(pytest.mark.xdist_group(item.path.stem))
