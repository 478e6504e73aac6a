"""L1, elastic net, bounds: Newton steps on a growing set of columns."""
