"""Tests of scikit-learn that ours are known and meant to fail, each with its reason.

A behaviour that a user would miss has no place here: it is mended instead. An entry that no longer
matches a failing test, or that matches a passing one, is an error.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

PRIVATE = "tests a private detail of scikit-learn"
WARNING_TEXT = "asserts the text of a warning of a solver that does not exist here"
ITERATIONS = "asserts the iterations of a particular solver of scikit-learn"
LIMIT = "asserts a limit of a solver of scikit-learn that ours does not have"
SOLVER_NAME = "asserts which of scikit-learn's solvers ran; solver_ says here what ran, in words"
CATEGORIES = (PRIVATE, WARNING_TEXT, ITERATIONS, LIMIT, SOLVER_NAME)


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


_LOGISTIC = "linear_model.tests.test_logistic"
_RIDGE = "linear_model.tests.test_ridge"
_BASE = "linear_model.tests.test_base"

EXPECTED_FAILURES: tuple[ExpectedFailure, ...] = (
    ExpectedFailure(
        _RIDGE,
        "test_ridge_regression[*]",
        SOLVER_NAME,
        "all it asserts of the answer before and after holds; see test_agreement.py",
    ),
    ExpectedFailure(
        _RIDGE,
        "test_ridge_fit_intercept_sparse_error[*]",
        LIMIT,
        "refuses an intercept with sparse X for some solvers; here all fit it",
    ),
    ExpectedFailure(
        _RIDGE,
        "test_ridge_fit_intercept_sparse_sag[*]",
        WARNING_TEXT,
        "SAG warns that it fits the intercept of sparse X inexactly; here it is exact",
    ),
    ExpectedFailure(
        _RIDGE,
        "test_lbfgs_solver_error",
        WARNING_TEXT,
        "L-BFGS does not converge on this ill-conditioned X; the direct solution is exact",
    ),
    ExpectedFailure(
        _RIDGE,
        "test_n_iter",
        ITERATIONS,
        "LSQR runs exactly max_iter iterations, others report None; a direct solution is one",
    ),
    ExpectedFailure(
        _BASE,
        "test_inplace_data_preprocessing[*-None]",
        LIMIT,
        "copy_X=False destroys X; here X is never changed",
    ),
    ExpectedFailure(
        _LOGISTIC,
        "test_max_iter[*]",
        WARNING_TEXT,
        "each solver's own text; ours, ConvergenceWarning too, names the gap that was reached",
    ),
    ExpectedFailure(
        "svm.tests.test_svm",
        "test_linear_svm_convergence_warnings[*]",
        WARNING_TEXT,
        "liblinear's text; ours, ConvergenceWarning too, names the gap that was reached",
    ),
    ExpectedFailure(
        "svm.tests.test_svm",
        "test_linearsvc_parameters[*-False-l2-hinge]",
        LIMIT,
        "liblinear has no primal solver for the hinge; here dual chooses nothing",
    ),
    ExpectedFailure(
        _LOGISTIC,
        "test_large_sparse_matrix[*-liblinear]",
        LIMIT,
        "liblinear refuses 64-bit indices; here all names of solvers take them",
    ),
    ExpectedFailure(
        _LOGISTIC,
        "test_large_sparse_matrix[*-sag*]",
        LIMIT,
        "SAG and SAGA refuse 64-bit indices; here all names of solvers take them",
    ),
    ExpectedFailure(
        _LOGISTIC,
        "test_liblinear_with_large_values",
        LIMIT,
        "liblinear freezes on entries above 1e30; here they are fitted, or refused",
    ),
    ExpectedFailure(
        _LOGISTIC,
        "test_liblinear_dual_random_state[*]",
        LIMIT,
        "seeds must give different answers within the tolerance; here both are exact",
    ),
    ExpectedFailure(
        _LOGISTIC,
        "test_dtype_match[*-liblinear]",
        LIMIT,
        "liblinear turns float32 into float64; here float32 stays (docs/from_scikit_learn.md)",
    ),
    ExpectedFailure(
        "linear_model.tests.test_sag",
        "test_step_size_alpha_error",
        PRIVATE,
        "a ZeroDivisionError from the step size of SAG",
    ),
)
