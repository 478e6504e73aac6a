"""What the exit codes of the command line mean."""

FINISHED = 0
FAILED = 1
BAD_USAGE = 2
NOT_CONVERGED = 3
INTERRUPTED = 130
TERMINATED = 143

LISTED = {
    FINISHED: "done, and a fit has converged",
    FAILED: "failed: one line on stderr says why",
    BAD_USAGE: "bad usage",
    NOT_CONVERGED: "the model was written, but the fit stopped before its tolerance was met",
    INTERRUPTED: "interrupted",
    TERMINATED: "terminated, by SIGTERM",
}
