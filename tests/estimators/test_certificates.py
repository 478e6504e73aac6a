"""Certificates of generated families, held against other arithmetic; benchmarks run many more."""

import pytest

from benchmarks import far_data, rare_data


@pytest.mark.parametrize("family", [far_data, rare_data], ids=lambda module: module.__name__)
@pytest.mark.parametrize("part", range(4))
def test_no_certificate_is_low_and_no_fit_silently_wrong(family, part):
    n_fits = 60 if family is far_data else 12
    found = [family.run(seed) for seed in range(part * n_fits, (part + 1) * n_fits)]
    assert [fit["seed"] for fit in found if fit["is_low"] or fit["is_silent"]] == []


def test_far_data_are_far_and_warned_of():
    """Some of the drawn problems cannot be solved in their type: those that can are not warned."""
    found = [far_data.run(seed) for seed in range(60)]
    assert 0 < sum(fit["warned"] for fit in found) < 30
