"""Many ranks: bytes and time of their sums, on hosts simulated by network namespaces."""
