"""Random numbers and orders: known answers, permutations, and that they vary."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from snapml._native import core_block_order, core_permutation, core_philox

SIZES = (1, 2, 3, 15, 16, 17, 1000, 4097)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers_of_its_authors(counter, key, words):
    """kat_vectors of Random123, philox4x32-10; seed is the key, stream the upper counter words."""
    seed = key[0] | key[1] << 32
    low, stream = counter[0] | counter[1] << 32, counter[2] | counter[3] << 32
    assert tuple(core_philox(seed, stream, low)) == words


@pytest.mark.parametrize("size", SIZES)
def test_permutation_visits_every_index_once(size):
    for seed, stream in ((0, 0), (1, 0), (0, 1), (2**64 - 1, 2**64 - 1)):
        assert sorted(core_permutation(seed, stream, size)) == list(range(size))


def test_permutation_of_nothing_is_empty():
    assert core_permutation(0, 0, 0) == []


@pytest.mark.parametrize("size", [16, 17, 1000, 4097])
def test_permutation_varies_with_seed_and_stream(size):
    orders = {tuple(core_permutation(seed, stream, size)) for seed in (0, 1) for stream in (0, 1)}
    assert len(orders) == 4
    assert tuple(range(size)) not in orders


@pytest.mark.parametrize("size", [5, 16, 100])
def test_permutation_takes_every_index_to_every_place(size):
    """Chi-square of the first and of the last place over many streams."""
    n_draws = 200 * size
    orders = np.array([core_permutation(7, stream, size) for stream in range(n_draws)])
    for place in (0, size // 2, size - 1):
        counts = np.bincount(orders[:, place], minlength=size)
        assert chi_square(counts) < chi_square_limit(size - 1)


@pytest.mark.parametrize("count", range(17))
def test_block_order_is_a_permutation(count):
    for block in range(20):
        assert sorted(core_block_order(3, 4, block, count)) == list(range(count))


def test_block_order_varies_with_seed_stream_and_block():
    arguments = [(s, t, b) for s in (0, 1) for t in (0, 1) for b in (0, 1)]
    assert len({tuple(core_block_order(*arg, 16)) for arg in arguments}) == len(arguments)


def test_block_order_is_uniform_up_to_the_bias_of_a_byte():
    n_draws = 64_000
    orders = np.array([core_block_order(0, 1, block, 16) for block in range(n_draws)])
    expected = n_draws / 16
    for place in range(16):
        counts = np.bincount(orders[:, place], minlength=16)
        # A byte splits into 16 or fewer parts that differ by 1/256; five deviations of chance.
        assert np.abs(counts - expected).max() <= expected * 16 / 256 + 5 * np.sqrt(expected)


def test_block_order_of_few_rows_takes_all_orders():
    counts = Counter(tuple(core_block_order(0, 2, block, 3)) for block in range(6000))
    assert set(counts) == set(permutations(range(3)))
    assert max(counts.values()) - min(counts.values()) < 250


@pytest.mark.parametrize("count", [-1, 17])
def test_block_of_a_wrong_size_is_refused(count):
    with pytest.raises(ValueError, match="count"):
        core_block_order(0, 0, 0, count)


def chi_square(counts):
    expected = counts.sum() / len(counts)
    return ((counts - expected) ** 2).sum() / expected


def chi_square_limit(freedom):
    """Return mean plus six deviations of the chi-square distribution."""
    return freedom + 6 * np.sqrt(2 * freedom)
