"""Certificates of generated families, held against other arithmetic; benchmarks run many more."""

import functools

import pytest

from benchmarks import far_data, rare_data

N_FITS = {far_data: 50, rare_data: 12}


@functools.cache
def run(family, part):
    """Return what became of some problems of a family."""
    seeds = range(part * N_FITS[family], (part + 1) * N_FITS[family])
    return [family.run(seed) for seed in seeds]


@pytest.mark.parametrize("family", N_FITS, ids=lambda module: module.__name__)
@pytest.mark.parametrize("part", range(2))
def test_no_certificate_is_low_and_no_fit_silently_wrong(family, part):
    found = run(family, part)
    assert [fit["seed"] for fit in found if fit["is_low"] or fit["is_silent"]] == []


def test_far_data_are_far_and_warned_of():
    """Some of the drawn problems cannot be solved in their type: those that can are not warned."""
    found = run(far_data, 0)
    assert 0 < sum(fit["warned"] for fit in found) < 25
