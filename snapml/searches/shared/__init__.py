"""Models that are fitted together, in shared reads of the rows."""
