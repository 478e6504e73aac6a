"""
A script of scikit-learn, without a changed line
================================================

``python -m snapml.accel script.py`` runs a script with scikit-learn's classes fitted by snapml
where it serves their parameters. In a program, ``snapml.accel.install()`` does the same for all
imports that follow; in a notebook, ``%load_ext snapml.accel``.
"""

# %%
# A script as scikit-learn's users write it. It prints what a search has chosen.

import subprocess
import sys
import tempfile
from pathlib import Path

script = """
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_digits(return_X_y=True)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, tol=1e-6))
search = GridSearchCV(model, {"logisticregression__C": np.logspace(-2, 1, 4)}, cv=3)
search.fit(X, y)
print(search.best_params_, round(search.best_score_, 3))
"""

# %%
# As it is, and under the command. ``-v`` says of each fit who made it.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "script.py"
    path.write_text(script)
    for options in ([], ["-m", "snapml.accel", "-v"]):
        done = subprocess.run(
            [sys.executable, *options, str(path)], capture_output=True, text=True, check=True
        )
        print("$ python", *options, "script.py")
        print(done.stdout, *sorted(set(done.stderr.splitlines())), sep="")

# %%
# In a program. The class is scikit-learn's with another ``fit``, and adds the certificate.

from sklearn.datasets import load_breast_cancer

import snapml.accel

snapml.accel.install()
from sklearn.linear_model import LogisticRegression  # after install

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
model = LogisticRegression(C=0.1).fit(X, y)
print(f"gap {model.gap_:.1e}; {model.solver_}")

# %%
# What snapml does not serve stays scikit-learn's, and the reason is logged.

import logging

lines = logging.StreamHandler(sys.stdout)
logging.getLogger("snapml.accel").addHandler(lines)
plain = LogisticRegression(C=0.1, warm_start=True).fit(X, y)
logging.getLogger("snapml.accel").removeHandler(lines)
print(f"has a certificate: {hasattr(plain, 'gap_')}")

# %%
# And back.

snapml.accel.uninstall()
from sklearn.linear_model import LogisticRegression  # scikit-learn's own again

print(LogisticRegression.__module__)
