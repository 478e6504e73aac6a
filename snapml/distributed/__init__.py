"""Training on the machines of a cluster: the same solvers, sums across ranks."""
