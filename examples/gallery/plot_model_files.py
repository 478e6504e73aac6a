"""
A model in a file, and in other programs
========================================

``save`` writes numbers under a checksum, and ``load`` runs nothing, so that a model may come from
anybody. What serves models elsewhere gets scikit-learn's own object, ONNX or JSON.
"""

# %%
# A fit on columns with names.

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import snapml

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = (X - X.mean()) / X.std()
model = snapml.LogisticRegression(C=0.1).fit(X, y)

# %%
# To a file and back: the same predictions, to the bit, and the certificate comes along.

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "tumours.model"
model.save(path)
loaded = snapml.load(path)
assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
print(
    f"{path.stat().st_size} bytes; gap {loaded.gap_:.1e}; {list(loaded.feature_names_in_)[:2]} ..."
)

# %%
# A file that was damaged on its way is refused, whichever byte it is.

damaged = bytearray(path.read_bytes())
damaged[-9] ^= 1
path.write_bytes(damaged)
try:
    snapml.load(path)
except ValueError as refusal:
    print(str(refusal).replace(folder.name, "..."))

# %%
# The same content as JSON: a dictionary that any language reads.

content = json.loads(model.to_json())
print(content["class"], content["parameters"]["C"], list(content["attributes"])[:4])
assert (snapml.from_json(model.to_json()).predict(X) == model.predict(X)).all()

# %%
# scikit-learn's own class, without this library in it, and back.

theirs = model.to_sklearn()
print(type(theirs).__module__, type(theirs).__name__)
again = snapml.LogisticRegression.from_sklearn(theirs)
print(f"predicts the same: {(again.predict(X) == theirs.predict(X)).all()}; gap {again.gap_}")

# %%
# By way of it, ONNX, which computes in float32 (``pip install 'snapml-open[onnx]' onnxruntime``).

try:
    import onnxruntime
    import skl2onnx
except ImportError as missing:
    print(f"no ONNX here: {missing}")
else:
    rows = X.to_numpy(np.float32)
    graph = skl2onnx.to_onnx(
        snapml.LogisticRegression(C=0.1).fit(rows, y).to_sklearn(), rows, options={"zipmap": False}
    )
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    _, shares = session.run(None, {"X": rows})
    difference = np.abs(shares[:, 1] - model.predict_proba(X)[:, 1])
    figure, axes = plt.subplots()
    axes.hist(np.log10(np.maximum(difference, 1e-12)), bins=40)
    axes.set(xlabel="log10 of the difference in probability", ylabel="rows", title="ONNX Runtime")
    plt.show()

# %%

folder.cleanup()
