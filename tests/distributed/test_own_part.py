"""Who reads which files, and what ranks agree on before they fit, without MPI."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import issparse

from snapml.data import ChunkedDataset
from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.distributed.mpi import file_sets
from snapml.distributed.mpi.own_part import own_part

from .ranks import on_ranks


def parts_of(given, limit=None):
    """Return what each rank trains on, in memory."""

    def work(communicator):
        X, y, sample_weight = (*given[communicator.rank], None, None)[:3]
        with removing_temporary_stores():
            part = own_part(communicator, X, y, sample_weight, limit)
            rows, labels = part.X, part.y
            if isinstance(rows, ChunkedDataset):
                rows, own = rows.load()
                labels = own if labels is None else labels
            if hasattr(rows, "indptr"):
                assert issparse(rows) or rows.shape[1] == rows.n_features
            communicator.exchange(None)
            return rows.shape, np.array(labels), part.feature_names

    found = on_ranks(len(given), work)
    errors = [result for result in found if isinstance(result, Exception)]
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return found


@pytest.fixture
def text(tmp_path):
    """Return two files of ten and six rows, with labels 0 to 9 and 10 to 15."""
    for name, rows in (("a", range(10)), ("b", range(10, 16))):
        lines = [f"{k} {1 + k}:1" for k in rows]
        (tmp_path / f"{name}.svm").write_text("\n".join(lines))
    return tmp_path


def test_ranks_that_name_the_same_files_divide_them_and_others_keep_theirs(text):
    given = [(text / "a.svm",), ([text / "b.svm"],), (text / "a.svm",), (str(text / "b.svm"),)]
    found = parts_of(given)
    labels = [part[1].tolist() for part in found]
    assert labels[0] + labels[2] == list(range(10))
    assert labels[1] + labels[3] == list(range(10, 16))
    assert all(labels)
    assert {shape[1] for shape, _, _ in found} == {16}


def test_targets_beside_files_belong_to_the_rows_of_those_that_share_them(text):
    y = np.arange(10) + 100.0
    found = parts_of([(text / "a.svm", y), (text / "a.svm", y), (text / "b.svm", np.ones(6))])
    assert_array_equal(np.concatenate([found[0][1], found[1][1]]), y)
    assert_array_equal(found[2][1], np.ones(6))


def test_one_zero_on_any_rank_makes_indices_zero_based_on_all(text):
    (text / "c.svm").write_text("1 0:1\n")
    found = parts_of([(text / "a.svm",), (text / "c.svm",)])
    assert [shape for shape, _, _ in found] == [(10, 11), (1, 11)]


def test_rows_in_memory_are_kept_beside_files(text):
    np.save(text / "rows.npy", np.ones((4, 3)))
    found = parts_of([(np.zeros((2, 3)), np.zeros(2)), (text / "rows.npy", np.ones(4))])
    assert [shape for shape, _, _ in found] == [(2, 3), (4, 3)]


def test_names_that_differ_only_in_the_folder_are_one_file(text, monkeypatch):
    (text / "b").mkdir()
    monkeypatch.chdir(text)
    found = parts_of([("a.svm",), (text / "a.svm",), (text / "b" / ".." / "a.svm",)])
    assert sorted(label for _, labels, _ in found for label in labels) == list(range(10))


def test_files_of_one_name_with_other_rows_are_no_one_file(text):
    """As on local disks: the name and the size are the same, the content is not."""
    path = text / "x.npy"
    np.save(path, np.zeros((3000, 2)))
    before = file_sets._mark([path])
    assert before == file_sets._mark([str(path)])
    rows = np.zeros((3000, 2))
    rows[-1] = 1.0
    np.save(path, rows)
    assert file_sets._mark([path]) != before


def test_rows_must_fit_memory_where_a_rank_has_none(text):
    (text / "none.svm").write_text("")
    with pytest.raises(
        ValueError, match=r"must fit memory: expected at most .*, 99 bytes, got [0-9]{5}:"
    ):
        parts_of([(text / "a.svm",), (text / "none.svm",)], limit=99)
    found = parts_of([(text / "a.svm",), (text / "none.svm",)], limit=10**6)
    assert [shape for shape, _, _ in found] == [(10, 10), (0, 10)]


def test_a_rank_may_name_no_files(text):
    found = parts_of([([text / "a.svm", text / "b.svm"],), ([],)])
    assert [shape for shape, _, _ in found] == [(16, 16), (0, 16)]
