"""Tests of scikit-learn that ours are known and meant to fail, each with its reason.

A behaviour that a user would miss has no place here: it is mended instead. An entry that no longer
matches a failing test, or that matches a passing one, is an error.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

PRIVATE = "tests a private detail of scikit-learn"
WARNING_TEXT = "asserts the text of a warning of a solver that does not exist here"
ITERATIONS = "asserts the iterations of a particular solver of scikit-learn"
CATEGORIES = (PRIVATE, WARNING_TEXT, ITERATIONS)


@dataclass(frozen=True)
class ExpectedFailure:
    """One reviewed failure.

    Attributes
    ----------
    module : str
        Test module, such as ``linear_model.tests.test_ridge``.
    test : str
        Name of the test with its parameters; ``*`` stands for anything.
    category : str
        One of `CATEGORIES`.
    reason : str
        Why this test cannot or shall not pass.
    """

    module: str
    test: str
    category: str
    reason: str

    def matches(self, module: str, test: str) -> bool:
        """Say whether the entry means this test."""
        return module == self.module and fnmatchcase(test, self.test.replace("[", "[[]"))


EXPECTED_FAILURES: tuple[ExpectedFailure, ...] = ()
