"""Stochastic dual coordinate ascent, and the engines that sweep over rows for it."""
