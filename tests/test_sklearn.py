import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from exhume.errors import InputError
from exhume.sklearn import UnlearningRidgeClassifier


@parametrize_with_checks([UnlearningRidgeClassifier(), UnlearningRidgeClassifier(gamma=0.01)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def test_forgetting_equals_never_having_seen(digits):
    X, y = digits
    out = np.arange(0, 600, 3)
    kept = np.setdiff1d(np.arange(len(X)), out)
    model = UnlearningRidgeClassifier(gamma=0.1)
    for part in np.array_split(np.arange(len(X)), 7):
        model.partial_fit(X[part], y[part], classes=range(10))
    model.forget(X[out], y[out])
    ridge = Ridge(alpha=0.1, fit_intercept=False, solver="cholesky").fit(X[kept], np.eye(10)[y[kept]])
    assert np.linalg.norm(model.coef_ - ridge.coef_) <= 1e-9 * np.linalg.norm(ridge.coef_)
    assert model.n_samples_seen_ == len(kept)
    assert model.score(X, y) > 0.9


def test_string_labels_and_two_classes():
    X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.8]])
    model = UnlearningRidgeClassifier(gamma=0.1).fit(X, ["no", "no", "yes", "yes"])
    assert model.predict(X).tolist() == ["no", "no", "yes", "yes"]
    assert model.decision_function(X).shape == (4,)


def test_bad_calls(digits):
    X, y = digits
    model = UnlearningRidgeClassifier().fit(X[:100], y[:100])
    before = model.coef_.copy()
    with pytest.raises(InputError, match=r"at most the 100 rows"):
        model.forget(X[:101], y[:101])
    with pytest.raises(InputError, match=r"y must be one of the classes"):
        model.partial_fit(X[:1], [77])
    with pytest.raises(InputError, match="classes must be those of the first call"):
        model.partial_fit(X[:1], y[:1], classes=[1, 2])
    np.testing.assert_array_equal(model.coef_, before)
