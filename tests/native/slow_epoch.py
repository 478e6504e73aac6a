"""An epoch written out in NumPy and float64: the oracle of the compiled one.

The order of rows and the step of one row come from the core functions, which have tests of their
own; everything around them is here once more, slowly.
"""

import numpy as np

from snapml import _native

from .shards import Shard


def split(count: int, parts: int, part: int) -> range:
    """Return the part of range(count) that belongs to one of several workers."""
    sizes = [count // parts + (k < count % parts) for k in range(parts)]
    return range(sum(sizes[:part]), sum(sizes[: part + 1]))


def ratio(changes: list[np.ndarray]) -> float:
    """Return ||sum of changes||^2 / sum of ||change||^2: the safety factor a merge needed."""
    single = sum(change @ change for change in changes)
    total = sum(changes)
    return float(total @ total / single) if single > 0 else 1.0


class SlowEpoch:
    """Runs epochs on float64 copies of a shard's states and shared vector."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.duals = shard.duals.astype(np.float64)
        self.shared = shard.shared.astype(np.float64)
        self.needed = 1.0

    def run(
        self,
        epoch: int,
        *,
        sigma: float = 1.0,
        outer: float = 1.0,
        relaxation: float = 1.0,
        block_rows: int = 16,
        seed: int = 0,
    ) -> float:
        """Run one epoch of replicas that are merged at its end; return the running gap."""
        shard = self.shard
        n_blocks = -(-shard.n_rows // block_rows)
        blocks = _native.core_permutation(seed, epoch, n_blocks)
        gap, changes = 0.0, []
        for worker in range(shard.n_threads):
            replica = self.shared.copy()
            for position in split(n_blocks, shard.n_threads, worker):
                first = block_rows * blocks[position]
                count = min(block_rows, shard.n_rows - first)
                order = _native.core_block_order(seed, 2**64 - 1 - epoch, blocks[position], count)
                for j in order:
                    gap += self._visit(first + j, replica, sigma * outer, relaxation)
            changes.append((replica - self.shared) / sigma)
        self.shared += sum(changes)
        self.needed = ratio(changes)
        return gap

    def _visit(self, i: int, vector: np.ndarray, factor: float, relaxation: float) -> float:
        shard = self.shard
        c, y, x = shard.c[i], shard.y[i], shard.descent_X[i]
        if c == 0:
            return 0.0
        z = x @ vector + shard.offset
        stiffness = relaxation * factor * c * (x @ x)
        name = shard.loss.core_name
        self.duals[i], change, gap = _native.core_step(name, self.duals[i], z, y, stiffness, True)
        vector += factor * c * change * x
        return c * gap
