"""Many models of one matrix, which share its reads."""
