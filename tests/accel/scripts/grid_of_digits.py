"""As in scikit-learn's gallery: a grid over a pipeline of scaled digits, in two processes."""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X[:600], y[:600], random_state=0)
pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
search = GridSearchCV(pipeline, {"logisticregression__C": [0.01, 1.0]}, cv=3, n_jobs=2)
search.fit(X_train, y_train)
print(f"accuracy {search.score(X_test, y_test):.2f}")
