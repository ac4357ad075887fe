import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from exhume.errors import InputError
from exhume.sklearn import UnlearningRidgeClassifier


@parametrize_with_checks([UnlearningRidgeClassifier(), UnlearningRidgeClassifier(gamma=0.01, fit_intercept=True)])
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
    with pytest.raises(InputError, match=r"X must be rows that were added before; got row 100"):
        model.forget(X[:101], y[:101])
    with pytest.raises(InputError, match=r"y must be one of the classes"):
        model.partial_fit(X[:1], [77])
    with pytest.raises(InputError, match="classes must be those of the first call"):
        model.partial_fit(X[:1], y[:1], classes=[1, 2])
    np.testing.assert_array_equal(model.coef_, before)


def test_only_what_was_added_can_be_forgotten(digits):
    X, y = digits
    model = UnlearningRidgeClassifier().fit(X[:100], y[:100])
    before = model.coef_.copy()
    wrong = np.where(y[:3] == 1, 2, 1)
    with pytest.raises(InputError, match="the label and weight that a row was added with"):
        model.forget(X[:3], wrong)
    with pytest.raises(InputError, match="the label and weight"):
        model.forget(X[:1], y[:1], sample_weight=[2.0])
    with pytest.raises(InputError, match="no more often than they were added"):
        model.forget(np.repeat(X[:1], 2, axis=0), np.repeat(y[:1], 2))
    with pytest.raises(InputError, match="rows that were added before"):
        model.forget(X[:1] + 1e-9, y[:1])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_samples_seen_ == 100
    model.forget(X[:1], y[:1])
    with pytest.raises(InputError):
        model.forget(X[:1], y[:1])
    assert model.forget(X[1:100], y[1:100]).n_samples_seen_ == 0


@pytest.mark.parametrize("gamma", ["a", 0, -1.0, None])
def test_a_wrong_gamma_is_told_as_scikit_learn_does(digits, gamma):
    from sklearn.utils._param_validation import InvalidParameterError

    X, y = digits
    with pytest.raises(
        InvalidParameterError, match="The 'gamma' parameter of UnlearningRidgeClassifier must be a float"
    ):
        UnlearningRidgeClassifier(gamma=gamma).fit(X, y)


def test_sparse_rows_are_refused(digits):
    import scipy.sparse

    X, y = digits
    with pytest.raises(TypeError, match="dense data is required"):
        UnlearningRidgeClassifier().fit(scipy.sparse.csr_array(X), y)


@pytest.mark.parametrize("intercept", [False, True])
def test_weights_and_intercept_are_ridges_own_after_forgetting(digits, intercept):
    X, y = digits
    X, y = X[:400], y[:400]
    weights = np.random.default_rng(0).uniform(0.5, 3.0, 400)
    model = UnlearningRidgeClassifier(gamma=0.3, fit_intercept=intercept).fit(X, y, sample_weight=weights)
    model.forget(X[::4], y[::4], sample_weight=weights[::4])
    kept = np.arange(400) % 4 != 0
    ridge = Ridge(alpha=0.3, fit_intercept=intercept, solver="cholesky")
    ridge.fit(X[kept], np.eye(10)[y[kept]], sample_weight=weights[kept])
    assert np.linalg.norm(model.coef_ - ridge.coef_) <= 1e-9 * np.linalg.norm(ridge.coef_)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_ if intercept else 0.0, atol=1e-9)


def test_refusals_name_labels_as_people_write_them():
    X, y = np.eye(4), np.arange(4) % 2
    model = UnlearningRidgeClassifier().fit(X, y)
    with pytest.raises(InputError, match=r"got 1 for row 0"):
        model.forget(X[:1], [1])
    with pytest.raises(InputError, match=r"one of the classes \[0, 1\]; got \[9\]"):
        model.forget(X[:1], [9])
