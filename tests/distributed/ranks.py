"""Several ranks in one process, without MPI: each on a thread of its own."""

import threading

from solvers.simulated import SimulatedCommunicator, _Meeting


def on_ranks(n_ranks, work):
    """Return what `work` returns or raises for the communicator of each rank.

    One that raises lets the others wait in vain, and they raise BrokenBarrierError.
    """
    meeting = _Meeting(n_ranks)
    found = [None] * n_ranks

    def run(rank):
        try:
            found[rank] = work(SimulatedCommunicator(rank, meeting))
        except Exception as error:
            found[rank] = error
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
