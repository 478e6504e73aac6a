"""Tests that no thread of another library reads a file when the program ends after an error."""

import threading
import time

import pytest

import snapml
from snapml.io.readers.stream_loan import Loan

pytest.importorskip("pyarrow")


class _Endless:
    def __init__(self):
        self.n_reads = 0

    def read(self, size):
        self.n_reads += 1
        return b"x" * size


def test_threads_find_the_end_before_the_loan_ends():
    stream = _Endless()
    loan = Loan(stream)
    lent = [loan.take()]

    def read_ahead():
        borrowed = lent.pop()
        while borrowed.read(10):
            time.sleep(0.001)

    with loan.ended():
        thread = threading.Thread(target=read_ahead)
        thread.start()
        while stream.n_reads < 3:
            time.sleep(0.001)
    n_reads = stream.n_reads
    thread.join(timeout=5.0)
    assert not thread.is_alive()
    assert stream.n_reads <= n_reads + 1


def test_nothing_is_read_behind_the_loan():
    loan = Loan(_Endless())
    with loan.ended():
        assert loan.take().read(3) == b"xxx"


def test_a_file_with_an_error_is_given_back_at_once(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("label,a\n" + "1,what\n" + "1,2.0\n" * 400_000)
    started = time.monotonic()
    with pytest.raises(ValueError, match="what"):
        snapml.Ridge().fit(str(path))
    assert time.monotonic() - started < 4.0  # after five seconds the loan would give up
