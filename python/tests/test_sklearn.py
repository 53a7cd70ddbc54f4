"""Networks of scikit-learn, and the estimators."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest
import varve
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

pytestmark = pytest.mark.filterwarnings("ignore:.*Stochastic Optimizer.*")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_classifier_of_several_classes(digits, activation):
    X, y = digits
    model = MLPClassifier((64, 64), activation=activation, max_iter=15, random_state=1).fit(X, y + 100)
    network = varve.Network.from_sklearn(model)  # 64 x 64: nothing but the model says how the matrix lies
    outputs = network.infer(X, precision="float64")
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    np.testing.assert_allclose(powers / powers.sum(axis=1, keepdims=True), model.predict_proba(X), atol=1e-10)
    np.testing.assert_array_equal(model.classes_[network.predict(X, precision="float64")], model.predict(X))


def test_classifier_of_two_classes(digits):
    X, y = digits
    model = MLPClassifier((32,), max_iter=15, random_state=1).fit(X, y > 4)
    outputs = varve.Network.from_sklearn(model).infer(X, precision="float64")
    assert outputs.shape == (len(X), 1)
    np.testing.assert_array_equal(outputs[:, 0] > 0, model.predict(X))


def test_regressor(digits):
    X, y = digits
    targets = np.column_stack([y, -y])
    model = MLPRegressor(hidden_layer_sizes=(32, 16), activation="tanh", max_iter=15, random_state=1).fit(X, targets)
    np.testing.assert_allclose(
        varve.Network.from_sklearn(model).infer(X, precision="float64"), model.predict(X), rtol=1e-10, atol=1e-10
    )


def test_a_regressor_with_exp_at_the_output_is_read_without_it(digits):
    X, y = digits
    model = MLPRegressor("poisson", hidden_layer_sizes=(16,), max_iter=5, random_state=1).fit(X, y)
    with pytest.warns(UserWarning, match="MLPRegressor ends with Exp, left out"):
        network = varve.Network.from_sklearn(model)
    np.testing.assert_allclose(np.exp(network.infer(X, precision="float64")[:, 0]), model.predict(X), rtol=1e-10)


def test_models_with_another_function_at_the_output_are_refused(digits):
    X, y = digits
    model = MLPRegressor(hidden_layer_sizes=(16,), max_iter=5, random_state=1).fit(X, y)
    model.out_activation_ = "logistic"
    with pytest.raises(varve.InputError, match="layer 1 has another output function than 'identity'|answers a random sample"):
        model.__class__ = type("Own", (MLPRegressor,), {"predict": lambda self, X: np.exp(MLPRegressor.predict(self, X))})
        varve.Network.from_sklearn(model)


@pytest.mark.parametrize("make", [MLPClassifier, MLPRegressor])
def test_classes_that_answer_otherwise_are_refused(digits, make):
    X, y = digits
    name = "predict_proba" if make is MLPClassifier else "predict"
    own = type("Own", (make,), {name: lambda self, X: 2 * getattr(make, name)(self, X)})
    model = make(hidden_layer_sizes=(16,), max_iter=5, random_state=1).fit(X, y)
    varve.Network.from_sklearn(model)
    model.__class__ = own
    with pytest.raises(varve.InputError, match="(?s)Own answers a random sample by .* expected .* by its coefs_"):
        varve.Network.from_sklearn(model)


def test_models_of_float32_and_of_several_labels_are_taken(digits):
    X, y = digits
    model = MLPRegressor(hidden_layer_sizes=(16,), max_iter=5, random_state=1).fit(X.astype(np.float32), y.astype(np.float32))
    assert model.coefs_[0].dtype == np.float32
    varve.Network.from_sklearn(model)
    labels = np.column_stack([y > 4, y % 2 == 0])
    model = MLPClassifier((16,), max_iter=5, random_state=1).fit(X, labels)
    outputs = varve.Network.from_sklearn(model).infer(X, precision="float64")
    np.testing.assert_array_equal(outputs > 0, model.predict(X))


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(varve.InputError, match="this MLPClassifier is not fitted"):
        varve.Network.from_sklearn(MLPClassifier())


def test_no_warning_for_models_of_scikit_learn(digits):
    model = MLPClassifier((64,), max_iter=2, random_state=1).fit(*digits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        varve.Network.from_sklearn(model)


@pytest.mark.parametrize("make", [varve.SparseClassifier, varve.SparseRegressor])
def test_checks_of_scikit_learn(make):
    mini_batches = "a sample of weight 2 is in one mini-batch, two equal samples are in any"
    names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    results = check_estimator(make(), on_skip=None, on_fail=None, expected_failed_checks=dict.fromkeys(names, mini_batches))
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    assert not failed
    assert sum(result["status"] == "passed" for result in results) > 40


def test_digits(digits):
    X, y = digits
    names = np.array([f"digit {number}" for number in range(10)])
    model = varve.SparseClassifier((64,), density=0.2, epochs=25, random_state=1).fit(X[:1200], names[y[:1200]])
    assert model.score(X[1200:], names[y[1200:]]) > 0.85
    assert model.network_.num_edges < 0.25 * (64 * 64 + 64 * 10) and len(model.history_) == 25
    probabilities = model.predict_proba(X[1200:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X[1200:]))
    again = varve.SparseClassifier((64,), density=0.2, epochs=25, random_state=1).fit(X[:1200], names[y[:1200]])
    assert again.network_.weights_hash() == model.network_.weights_hash()


def test_regression(digits):
    """One target or several, of any size, in one call or part by part."""
    X, y = load_diabetes(return_X_y=True)
    model = varve.SparseRegressor((32,), density=0.5, random_state=1)
    X = StandardScaler().fit_transform(X)
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.2
    X, y = digits
    targets = np.eye(10)[y]
    model = varve.SparseRegressor((64,), epochs=20, validation_fraction=0.2, patience=5, random_state=1).fit(X[:1200], targets[:1200])
    assert (model.predict(X[1200:]).argmax(axis=1) == y[1200:]).mean() > 0.8
    assert model.best_epoch_ == 1 + np.argmin([epoch.validation_loss for epoch in model.history_])
    parts = varve.SparseRegressor((64,), rate=0.2, random_state=1)
    for first in range(0, 1200, 400):
        parts.partial_fit(X[first : first + 400], y[first : first + 400] / 10)
    assert parts.predict(X).shape == y.shape and parts.network_.num_outputs == 1
    with pytest.raises(ValueError, match="found 64 features and 10 targets, expected 64 and 1 as in the fit before"):
        parts.partial_fit(X, targets)
    warm = varve.SparseRegressor((32,), epochs=3, random_state=1, warm_start=True).fit(X, targets)
    assert warm.fit(X, targets).history_[0].loss < varve.SparseRegressor((32,), epochs=3, random_state=1).fit(X, targets).history_[-1].loss


def test_weights_of_samples_and_classes():
    generator = np.random.default_rng(4)
    X = generator.standard_normal((600, 5))
    y = np.where(X[:, 0] + generator.standard_normal(600) > 1.5, "rare", "usual")
    fits = [
        varve.SparseClassifier((16,), density=1.0, epochs=10, random_state=1, class_weight=weight).fit(X, y)
        for weight in (None, "balanced", {"rare": 600 / (2 * (y == "rare").sum()), "usual": 600 / (2 * (y == "usual").sum())})
    ]
    found = [(model.predict(X)[y == "rare"] == "rare").mean() for model in fits]
    assert found[1] > found[0] + 0.2 and found[1] == found[2]
    weights = np.where(y == "rare", 4.0, 1.0)
    plain = varve.SparseClassifier((16,), epochs=3, random_state=1)
    by_class = varve.SparseClassifier((16,), epochs=3, random_state=1, class_weight={"rare": 4.0})
    hashes = [
        model.fit(X, y, **given).network_.weights_hash()
        for model, given in ((plain, {"sample_weight": weights}), (by_class, {}), (plain, {"sample_weight": 2 * weights}), (plain, {}))
    ]
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]
    parted = varve.SparseClassifier((16,), epochs=3, random_state=1, validation_fraction=0.2).fit(X, y, sample_weight=weights)
    assert parted.best_epoch_ is not None
    parts = [varve.SparseClassifier((16,), random_state=1, class_weight=weight) for weight in ({"rare": 4.0}, None)]
    parts[0].partial_fit(X, y, classes=np.unique(y))
    parts[1].partial_fit(X, y, classes=np.unique(y), sample_weight=weights)
    assert parts[0].network_ == parts[1].network_
    model = varve.SparseRegressor((16,), epochs=3, random_state=1)
    assert model.fit(X, X[:, 0], sample_weight=weights).network_ != model.fit(X, X[:, 0]).network_
    assert model.partial_fit(X, X[:, 0], sample_weight=weights).network_.num_outputs == 1
    for options, given, sentence in (
        ({}, {"sample_weight": -weights}, "sample_weight holds the value -"),
        ({}, {"sample_weight": weights[1:]}, "sample_weight has the shape"),
        ({}, {"sample_weight": 0 * weights}, "all weights of samples are zero"),
        ({"class_weight": {"other": 1.0}}, {}, "class_weight has the class 'other'"),
        ({"class_weight": "even"}, {}, "class_weight is 'even'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            varve.SparseClassifier(**options).fit(X, y, **given)
    with pytest.raises(ValueError, match="partial_fit does not know"):
        varve.SparseClassifier(class_weight="balanced").partial_fit(X, y, classes=np.unique(y))


def test_a_regressor_by_huber_follows_outliers_less():
    generator = np.random.default_rng(2)
    X = generator.standard_normal((400, 3))
    clean = X @ [1.0, -2.0, 0.5]
    y = np.where(generator.random(400) < 0.1, clean + 100, clean)
    errors = {}
    for loss in ("mean-square", "huber"):
        model = varve.SparseRegressor((32,), density=1.0, loss=loss, delta=0.1, epochs=40, random_state=1).fit(X, y)
        errors[loss] = np.median(np.abs(model.predict(X) - clean))
    assert errors["huber"] < errors["mean-square"] / 2
    assert varve.SparseRegressor((32,), loss="huber", random_state=1).partial_fit(X, y).network_.num_outputs == 1
    for wrong in ("logistic", "squared_error"):
        with pytest.raises(ValueError, match="mean-square"):
            varve.SparseRegressor(loss=wrong).fit(X, y)
    with pytest.raises(TypeError):
        varve.SparseClassifier(loss="huber")


def test_every_option_of_train_is_one_of_the_classifier(digits):
    """Except those of files, of answers that are no classes, and those with other names."""
    of_train = set(inspect.signature(varve.train).parameters)
    of_classifier = set(varve.SparseClassifier().get_params())
    assert of_train - of_classifier == {
        *("network", "X", "labels", "targets", "sample_weight", "validation", "loss", "delta", "seed", "checkpoint", "checkpoint_every", "receipt_every"),
    }
    X, y = digits
    seen = []
    model = varve.SparseClassifier(
        (64,), density=0.1, epochs=40, pattern="rigl", pattern_every=20, validation_fraction=0.2, patience=3,
        micro_batch=64, batch=64, rate=0.02, optimizer="adamw", l2=0.01, random_state=1, progress=seen.append,
    ).fit(X[:1000], y[:1000])  # fmt: skip
    assert seen == model.history_ and model.history_[0].num_steps == 13 and sum(epoch.dropped_edges for epoch in seen) > 0
    losses = [epoch.validation_loss for epoch in seen]
    assert model.best_epoch_ == 1 + int(np.argmin(losses)) and (len(seen) == 40 or len(seen) == model.best_epoch_ + 3)
    assert model.score(X[1000:], y[1000:]) > 0.8
    with pytest.raises(ValueError, match="validation_fraction is 1.5"):
        varve.SparseClassifier(validation_fraction=1.5).fit(X[:100], y[:100])


def test_names_of_others_are_known():
    for name, own in (("hidden_layer_sizes", "hidden"), ("seed", "random_state"), ("learning_rate_init", "rate")):
        with pytest.raises(TypeError, match=rf"SparseClassifier\(\) has no argument {name}; here it is {own}"):
            varve.SparseClassifier(**{name: 1})


def test_pipelines_and_searches(digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), varve.SparseClassifier((32,), epochs=5, random_state=1))
    search = GridSearchCV(pipeline, {"sparseclassifier__density": [0.1, 0.5]}, cv=2).fit(X[:600], y[:600])
    assert search.best_score_ > 0.5


def test_samples_come_part_by_part(digits):
    X, y = digits
    model = varve.SparseClassifier(64, random_state=1)
    with pytest.raises(ValueError, match="the first call of partial_fit needs classes"):
        model.partial_fit(X[:100], y[:100])
    for first in range(0, 1200, 100):
        model.partial_fit(X[first : first + 100], y[first : first + 100], classes=np.arange(10) if first == 0 else None)
    once = varve.SparseClassifier(64, random_state=1)
    for _ in range(8):
        for first in range(0, 1200, 400):
            once.partial_fit(X[first : first + 400], y[first : first + 400], classes=np.arange(10))
    assert once.score(X[1200:], y[1200:]) > 0.8
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    again.partial_fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="y has classes that are not among"):
        model.partial_fit(X[:3], [0, 1, 11])
    with pytest.raises(ValueError, match="expected .* as in the first call"):
        model.partial_fit(X[:3], y[:3], classes=[0, 1])


def test_a_warm_start_goes_on_from_the_network_before(digits):
    X, y = digits
    cold, warm = (varve.SparseClassifier((32,), epochs=3, random_state=1, warm_start=is_warm) for is_warm in (False, True))
    for model in (cold, warm):
        model.fit(X[:600], y[:600])
    first = cold.network_
    assert warm.network_ == first and cold.fit(X[:600], y[:600]).network_ == first
    assert warm.fit(X[:600], y[:600]).network_ != first and warm.history_[0].loss < cold.history_[-1].loss
    with pytest.raises(ValueError, match="warm_start continues with the same classes"):
        warm.fit(X[:600], y[:600] % 3)


def test_frames_of_pandas(digits):
    pandas = pytest.importorskip("pandas")
    X, y = digits
    network = varve.Network.from_sklearn(MLPClassifier((16,), max_iter=5, random_state=1).fit(X, y))
    for kind in (np.float64, np.float32, "Float64", pandas.SparseDtype(float)):
        frame = pandas.DataFrame(X).astype(kind)
        np.testing.assert_array_equal(network.infer(frame), network.infer(X))
        assert network.evaluate(frame, pandas.Series(y)) == network.evaluate(X, y)
    frame = pandas.DataFrame(X).assign(name="text")
    with pytest.raises(varve.InputError, match="X has the column 'name' of the type .*, expected a number in every row; pandas.get_dummies"):
        network.infer(frame)
