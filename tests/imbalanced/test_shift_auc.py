"""The classifier and the density ratio: known laws, invariants, tables, bad input."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from paperworks.imbalanced import ShiftAUCClassifier, auc_risk_positive, auc_risk_pu, density_ratio

pytestmark = pytest.mark.filterwarnings("ignore:the weights leave:RuntimeWarning")


def gaussian_groups(n, share, rng):
    """The third column tells the group; what is positive in one group looks negative in the other."""
    group, y = rng.random(n) < share, rng.random(n) < 0.3
    sign = np.where(group, -1.0, 1.0) * y
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.6 * sign
    X[:, 1] -= 0.8 * sign
    X[:, 2] = np.where(group, 3.0, -3.0) + 0.3 * X[:, 2]
    return X, y.astype(int)


def oracle(X):
    """Density ratio of shares .1 to .9 of the first group."""
    group = X[:, 2] > 0
    return np.where(group, 0.1 / 0.9, 0.9 / 0.1)


def problem(seed, n_pos=150, n_unl=600, n_target=600):
    rng = np.random.default_rng(seed)
    pool, y = gaussian_groups(20 * n_pos, 0.9, rng)
    unl, _ = gaussian_groups(n_unl, 0.9, rng)
    target, _ = gaussian_groups(n_target, 0.1, rng)
    test, y_test = gaussian_groups(2000, 0.1, rng)
    X = np.concatenate((pool[y == 1][:n_pos], unl))
    return X, np.repeat([1, 0], [n_pos, n_unl]), target, test, y_test


def linear(**settings):
    return ShiftAUCClassifier(base="linear", **{"random_state": 0, **settings})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_weights_turn_the_ranking_round(seed):
    X, s, target, test, y = problem(seed)
    weighted = linear(ratio=oracle).fit(X, s, target).score(test, y)
    plain = linear(ratio=lambda X: np.ones(len(X)), mix=1.0).fit(X, s, target).score(test, y)
    assert weighted > 0.8
    assert weighted - plain > 0.4


def test_estimated_weights_are_nearly_as_good():
    X, s, target, test, y = problem(3)
    model = linear().fit(X, s, target)
    assert model.score(test, y) > linear(ratio=oracle).fit(X, s, target).score(test, y) - 0.03
    assert 0.85 < model.domain_auc_ < 0.95  # the groups alone give .9
    # the weights of the rare group are about 9, of the common one about 1/9
    rare = X[s == 1][:, 2] < 0
    assert 4 < np.median(model.weights_pos_[rare]) < 16
    assert np.median(model.weights_pos_[~rare]) < 0.3
    w = model.weights_pos_
    assert model.effective_sample_size_ == pytest.approx(w.sum() ** 2 / (w**2).sum())


def test_linear_fit_is_a_minimum_of_the_mixed_risk():
    X, s, target, _, _ = problem(4, 60, 200, 150)
    model = linear(ratio=oracle, mix=0.3, alpha=0.01).fit(X, s, target)
    pooled = np.concatenate((X[s == 0], target))
    scale = np.sqrt(pooled.var(axis=0).mean())
    w_pos, w_unl = oracle(X[s == 1]), oracle(X[s == 0])

    def objective(theta):
        f = [Z @ theta / scale for Z in (X[s == 1], X[s == 0], target)]
        risk = 0.3 * auc_risk_pu(f[0], f[1], w_pos, w_unl) + 0.7 * auc_risk_positive(f[0], f[2], w_pos)
        return risk + 0.01 * theta @ theta

    theta = model.coef_[0] * scale
    lowest = objective(theta)
    assert model.loss_curve_[-1] == pytest.approx(lowest, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(40):
        assert objective(theta + 0.05 * rng.normal(size=3)) > lowest - 1e-9
    assert lowest < objective(np.zeros(3)) - 0.05
    np.testing.assert_allclose(np.ptp(X @ model.coef_[0] - model.decision_function(X)), 0, atol=1e-9)


def test_mix_one_ignores_the_target_and_mix_zero_the_unlabelled():
    X, s, target, test, _ = problem(5, 40, 120, 100)
    rng = np.random.default_rng(0)
    other = np.concatenate((X[s == 1], 3 * rng.normal(size=(120, 3))))
    kept = {mix: linear(ratio=oracle, mix=mix).fit(X, s, target).decision_function(test) for mix in (0.0, 0.5, 1.0)}
    # scores up to a shift: the centre is no part of a ranking
    moved = {
        1.0: linear(ratio=oracle, mix=1.0).fit(X, s, 3 * target + 1),
        0.0: linear(ratio=oracle, mix=0.0).fit(other, s, target),
        0.5: linear(ratio=oracle, mix=0.5).fit(other, s, target),
    }
    gaps = {mix: np.ptp(model.decision_function(test) - kept[mix]) for mix, model in moved.items()}
    assert gaps[1.0] < 1e-9
    assert gaps[0.0] < 1e-9
    assert gaps[0.5] > 1e-2


def test_estimated_risk_needs_no_labels():
    X, s, target, test, y = problem(6)
    model = linear(prior=0.3).fit(X, s, target)
    risk = model.estimated_risk(X, s, target)
    f = model.decision_function(test)
    truth = auc_risk_pu(f[y == 1], f[y == 0])
    assert risk["mixed"] == pytest.approx(0.5 * risk["pu"] + 0.5 * risk["positive"])
    assert risk["mixed"] == pytest.approx(truth, abs=0.1)
    plain = linear().fit(X, s, target).estimated_risk(X, s, target)
    assert plain["pu"] == pytest.approx(0.7 * risk["pu"] + 0.15)


def test_threshold_leaves_the_share_of_positives():
    X, s, target, _, _ = problem(7)
    assert linear(prior=0.25).fit(X, s, target).predict(target).mean() == pytest.approx(0.25, abs=1e-9)
    assert linear().fit(X, s, target).predict(target).mean() == pytest.approx(150 / 750, abs=1e-9)


@pytest.mark.parametrize("loss", ["sigmoid", "logistic", "squared", "hinge", "ramp"])
def test_every_loss_learns(loss):
    X, s, target, test, y = problem(8)
    assert linear(ratio=oracle, loss=loss, prior=0.3).fit(X, s, target).score(test, y) > 0.8


def test_mix_is_chosen_on_held_out_rows():
    X, s, target, test, y = problem(9)
    model = linear(mix="cv", ratio=oracle, alpha=0.01).fit(X, s, target)
    assert model.mix_ in (0, 0.25, 0.5, 0.75, 1)
    assert model.alpha_ in (0.001, 0.01, 0.1)
    assert model.score(test, y) > 0.8
    same = linear(mix=model.mix_, ratio=oracle, alpha=model.alpha_).fit(X, s, target)
    assert roc_auc_score(y, same.decision_function(test)) == pytest.approx(model.score(test, y), abs=0.01)


@pytest.mark.parametrize("method", ["kernel-logistic", "logistic", "ulsif"])
def test_density_ratio_of_two_gaussians(method):
    rng = np.random.default_rng(10)
    source, target = rng.normal(size=(1500, 2)), rng.normal(size=(1500, 2)) + [0.8, 0]
    grid = rng.normal(size=(500, 2)) * 0.7 + [0.4, 0]
    truth = np.exp(0.8 * grid[:, 0] - 0.32)
    for relative in (0.0, 0.5):
        expected = truth / (relative * truth + 1 - relative)
        found = density_ratio(source, target, method=method, relative=relative, random_state=0)(grid)
        assert np.corrcoef(found, expected)[0, 1] > 0.85
        assert found.mean() == pytest.approx(expected.mean(), rel=0.15)
        if relative and method != "ulsif":
            assert found.max() <= 2.0


def test_density_ratio_ignores_offsets_and_units():
    rng = np.random.default_rng(11)
    source, target = rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 0.5
    base = density_ratio(source, target, random_state=0)(target)
    moved = density_ratio(50 * source + 1000, 50 * target + 1000, random_state=0)(50 * target + 1000)
    np.testing.assert_allclose(moved, base, rtol=1e-5)
    ratio = density_ratio(source, target, random_state=0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ratio))(target), base)


def test_a_constant_column_beside_useful_ones():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    X[:, 2] = 7.0
    Xt = rng.normal(0.7, 1.0, size=(200, 3))
    Xt[:, 2] = 7.0
    s = ((rng.random(300) < 1 / (1 + np.exp(-3 * X[:, 0]))) & (rng.random(300) < 0.4)).astype(int)
    model = linear().fit(X, s, Xt)
    assert np.isfinite(model.decision_function(Xt)).all()
    assert model.coef_[0, 2] == 0
    for method in ("kernel-logistic", "logistic", "ulsif"):
        w = density_ratio(X, Xt, method=method, random_state=0)(X)
        assert np.isfinite(w).all()
        assert (w >= 0).all()
        far = [np.column_stack((Z[:, :2], np.full(len(Z), 1e5))) for Z in (X, Xt)]
        np.testing.assert_allclose(density_ratio(*far, method=method, random_state=0)(far[0]), w, rtol=1e-3)
    with pytest.raises(ValueError, match="cannot be told apart"):
        density_ratio(np.full((20, 2), 0.1), np.full((30, 2), 0.1))
    with pytest.raises(ValueError, match="cannot be told apart"):
        linear().fit(np.full((300, 2), 0.1), s, np.full((30, 2), 0.1))


def test_pandas_indicators():
    X, s, target, test, _ = problem(12, 30, 80, 60)
    frame, names = pd.DataFrame(X, columns=["a", "b", "größe"]), ["a", "b", "größe"]
    reference = linear().fit(X, s, target).decision_function(test)
    series = pd.Series(s)
    kinds = (series.astype("Int64"), series.astype("boolean"), series.astype("category"), series == 1, s.tolist())
    for kind in kinds:
        model = linear().fit(frame, kind, pd.DataFrame(target, columns=names))
        np.testing.assert_array_equal(model.decision_function(pd.DataFrame(test, columns=names)), reference)
    for hole in (pd.NA, None, np.nan):
        broken = series.astype(object)
        broken[[3, 5]] = hole
        with pytest.raises(ValueError, match=r"s holds 2 missing"):
            linear().fit(frame, broken, target)
    with pytest.raises(ValueError, match="X_target must have the columns"):
        linear().fit(frame, s, pd.DataFrame(target, columns=["b", "a", "größe"]))


@pytest.mark.parametrize("ratio", ["kernel-logistic", "logistic", "ulsif"])
def test_sparse_rows(ratio):
    rng = np.random.default_rng(13)
    X, target = (rng.poisson(lam, (n, 30)).astype(float) for lam, n in ((0.3, 200), (0.4, 100)))
    s = (X[:, 0] > 0).astype(int)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    model = linear(ratio=ratio).fit(wide, s, sp.csr_matrix(target))
    assert model.score(wide, s) > 0.9
    np.testing.assert_allclose(model.decision_function(wide), model.decision_function(X), atol=1e-10)
    with pytest.raises(TypeError, match="sparse"):
        ShiftAUCClassifier().fit(wide, s, target)


def test_few_effective_positives_are_said():
    X, s, target, _, _ = problem(14, 40, 100, 80)
    with pytest.warns(RuntimeWarning, match="effective positives"):
        linear(ratio=lambda Z: np.where(np.arange(len(Z)) == 0, 1000.0, 0.01)).fit(X, s, target)


def test_collapse_is_said():
    X, s, target, _, _ = problem(15, 40, 100, 80)
    torch = pytest.importorskip("torch")
    flat = torch.nn.Linear(3, 1)
    torch.nn.init.zeros_(flat.weight)
    flat.weight.requires_grad_(False)
    with pytest.warns(RuntimeWarning, match="collapsed"):
        ShiftAUCClassifier(base=flat, max_epochs=1, random_state=0).fit(X, s, target)


def test_perceptron_learns_and_repeats():
    torch = pytest.importorskip("torch")
    X, s, target, test, y = problem(16)
    state = torch.get_rng_state()
    models = [
        ShiftAUCClassifier(ratio=oracle, max_epochs=40, early_stopping=False, random_state=0).fit(X, s, target)
        for _ in range(2)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(models[0].decision_function(test), models[1].decision_function(test))
    assert models[0].score(test, y) > 0.8
    stopped = ShiftAUCClassifier(ratio=oracle, lr=0.01, random_state=0).fit(X, s, target)
    assert len(stopped.loss_curve_) < 100
    assert stopped.score(test, y) > 0.8
    assert models[0].loss_curve_[-1] < models[0].loss_curve_[0]
    other = ShiftAUCClassifier(ratio=oracle, max_epochs=40, early_stopping=False, random_state=1).fit(X, s, target)
    assert np.abs(other.decision_function(test) - models[0].decision_function(test)).max() > 1e-3


def test_perceptron_choice_of_mix():
    pytest.importorskip("torch")
    X, s, target, test, y = problem(17, 150, 250, 250)
    model = ShiftAUCClassifier(mix="cv", ratio=oracle, max_epochs=8, hidden=(16,), lr=0.03, random_state=0)
    model.fit(X, s, target)
    assert model.mix_ in (0, 0.25, 0.5, 0.75, 1)
    assert 1 <= len(model.loss_curve_) <= 8
    assert model.score(test, y) > 0.6


def test_own_modules():
    torch = pytest.importorskip("torch")
    X, s, target, test, y = problem(18)
    base = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
    before = [p.clone() for p in base.parameters()]
    model = ShiftAUCClassifier(base=base, ratio=oracle, lr=0.01, loss=lambda z: torch.sigmoid(-z), random_state=0)
    model.fit(X, s, target)
    assert all(torch.equal(p, q) for p, q in zip(before, base.parameters(), strict=True))
    assert model.score(test, y) > 0.75
    assert 0 < model.estimated_risk(X, s, target)["mixed"] < 0.6
    with pytest.raises(ValueError, match=r"base must map .* returned \(\d+, 2\)"):
        ShiftAUCClassifier(base=torch.nn.Linear(3, 2), ratio=oracle).fit(X, s, target)
    images = [Z.reshape(len(Z), 1, 3) for Z in (X, target, test)]
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 1))
    model = ShiftAUCClassifier(base=net, lr=0.02, random_state=0).fit(torch.from_numpy(images[0]), s, images[1])
    assert model.score(images[2], y) > 0.75


@pytest.mark.parametrize(
    ("settings", "change", "error", "match"),
    [
        ({}, {"s": [0, 1, 2] * 10}, ValueError, "s must hold 0"),
        ({}, {"s": ["no", "yes", "no"] * 10}, ValueError, "s must hold 0"),
        ({}, {"s": [0] * 30}, ValueError, "at least 2 labelled"),
        ({}, {"s": [1] * 30}, ValueError, "1 unlabelled"),
        ({}, {"s": [1] + [0] * 29}, ValueError, "at least 2 labelled"),
        ({}, {"s": [1, 0] * 10}, ValueError, "s must have one entry"),
        ({}, {"X_target": np.ones((5, 3))}, ValueError, "X_target must have 2 features"),
        ({}, {"X_target": np.empty((0, 2))}, ValueError, "X_target must hold at least one row"),
        ({}, {"X_target": np.full((5, 2), np.nan)}, ValueError, "X_target contains NaN"),
        ({"mix": 1.5}, {}, ValueError, "mix"),
        ({"mix": "best"}, {}, ValueError, "mix"),
        ({"loss": "exp"}, {}, ValueError, "loss"),
        ({"loss": "zero_one"}, {}, ValueError, "loss"),
        ({"loss": abs}, {}, TypeError, "loss"),
        ({"prior": 0.0}, {}, ValueError, "prior"),
        ({"relative": 1.0}, {}, ValueError, "relative"),
        ({"clip": 0.0}, {}, ValueError, "clip"),
        ({"ratio": "kde"}, {}, ValueError, "ratio"),
        ({"ratio": lambda X: np.ones(3)}, {}, ValueError, "result of ratio must have"),
        ({"ratio": lambda X: -np.ones(len(X))}, {}, ValueError, "result of ratio must not be negative"),
        ({"ratio": lambda X: np.zeros(len(X))}, {}, ValueError, "result of ratio must not be all zero"),
        ({"base": "forest"}, {}, ValueError, "base"),
        ({"base": 3}, {}, TypeError, "base"),
        ({"alpha": -1.0}, {}, ValueError, "alpha"),
        ({"batch_size": 0}, {}, ValueError, "batch_size"),
    ],
)
def test_bad_input_is_named(settings, change, error, match):
    rng = np.random.default_rng(0)
    given = {"X": rng.normal(size=(30, 2)), "s": [0, 1, 0] * 10, "X_target": rng.normal(size=(20, 2)), **change}
    with pytest.raises(error, match=match):
        ShiftAUCClassifier(**{"base": "linear", **settings}).fit(**given)


def test_the_target_rows_are_asked_for():
    with pytest.raises(TypeError, match="X_target"):
        linear().fit(np.eye(4), [1, 1, 0, 0])


def test_small_samples_and_few_distinct_rows():
    rng = np.random.default_rng(19)
    X, target = rng.integers(0, 2, (12, 2)).astype(float), rng.integers(0, 2, (4, 2)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = linear().fit(X, [1, 1] + [0] * 10, target)
    assert np.isfinite(model.decision_function(target)).all()


def test_the_linear_part_needs_no_torch():
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import numpy as np\n"
        "from paperworks.imbalanced import ShiftAUCClassifier, auc_risk_pu\n"
        "X = np.random.default_rng(0).normal(size=(60, 2))\n"
        "m = ShiftAUCClassifier(base='linear', random_state=0).fit(X[:40], [0, 1] * 20, X[40:])\n"
        "print(m.coef_.shape, auc_risk_pu([1.0], [1.0]))\n"
        "try: ShiftAUCClassifier().fit(X[:40], [0, 1] * 20, X[40:])\n"
        "except ImportError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "(1, 2) 0.5" in done.stdout
    assert 'pip install "paperworks[torch]"' in done.stdout
