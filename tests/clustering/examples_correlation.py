import numpy as np
from numpy.typing import NDArray

from paperworks.clustering import Certificate, ConstrainedCorrelationClustering
from tests.battery import Example


def use_clustering(model: ConstrainedCorrelationClustering, dtype: str) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    W = np.triu(rng.normal(size=(12, 12)), 1)
    W = (W + W.T).astype(dtype)
    model.fit(W, must_link=[(0, 1)], cannot_link=[(1, 2)])
    return np.array([*model.labels_, model.cost_, model.lower_bound_, *model.candidates_.values()])


def use_certificate(certificate: Certificate, dtype: str) -> NDArray[np.float64]:
    return np.array(certificate[:3], dtype=dtype)


EXAMPLES = {
    "Certificate": Example(
        make=lambda seed: Certificate(cost=3, lower_bound=2.0, ratio=1.5, source="cluster"), use=use_certificate
    ),
    "ConstrainedCorrelationClustering": Example(
        make=lambda seed: ConstrainedCorrelationClustering(weights=True, random_state=seed), use=use_clustering
    ),
}
