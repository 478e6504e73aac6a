"""Which solver for which data and place, and why; what is refused; how much memory it takes."""
