"""Counts and amounts: families of targets, and the regressors of their deviances."""
