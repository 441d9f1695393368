import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons

from paperworks.clustering import ConstrainedSpectralCut
from tests.battery import Example


def use(model: ConstrainedSpectralCut, dtype: str) -> NDArray[np.float64]:
    X, y = make_moons(120, noise=0.1, random_state=0)
    pairs = np.random.default_rng(0).integers(0, 120, size=(60, 2))
    pairs = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]]
    model.fit(X.astype(dtype), cannot_link=pairs)
    return np.concatenate([model.labels_, model.eigenvalues_, [model.cut_ratio_, model.lower_bound_]])


EXAMPLES = {
    "ConstrainedSpectralCut": Example(
        make=lambda seed: ConstrainedSpectralCut(random_state=seed),
        use=use,
    )
}
