"""Estimators under scikit-learn's names; `snapml` hands them out."""
