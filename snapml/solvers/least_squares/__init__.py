"""Least squares, exactly: normal equations, decompositions, leaving one row out."""
