"""Standard errors, tests and confidence intervals of coefficients.

For least squares and binary logistic regression, without a penalty or with L2; docs/statistics.md
says which covariance means what, and where it is from.
"""

from __future__ import annotations

from snapml.statistics.covariance import inference
from snapml.statistics.resampling import Bootstrap, bootstrap
from snapml.statistics.result import Inference

__all__ = ["Bootstrap", "Inference", "bootstrap", "inference"]
