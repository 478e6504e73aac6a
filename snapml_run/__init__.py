"""``snapml-run``: starts a script on the ranks of an MPI job.

A package beside `snapml`, of the standard library only: importing anything below `snapml` imports
NumPy and scikit-learn, which takes longer than all that is done here, and a launcher must be able
to say what is missing where something is.
"""
