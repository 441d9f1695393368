import networkx as nx
import numpy as np

from paperworks.causal import LocalCause, PagMark, random_latent_sem
from paperworks.causal.local_cause.pag import RELATIONS
from tests.battery import Example

GRAPH = nx.DiGraph([("a", "b"), ("u", "b"), ("u", "c"), ("b", "d"), ("c", "d"), ("e", "c"), ("d", "f")])


def use(model: LocalCause, dtype: str) -> np.ndarray:
    data, _ = random_latent_sem(GRAPH, 1, 2000, random_state=0)
    model.fit(data.astype(dtype), target="d")
    codes = [RELATIONS.index(relation) for relation in model.relations()]
    return np.array([*codes, *model.pag_.ravel(), model.n_tests_], dtype=float)


EXAMPLES = {
    "LocalCause": Example(make=lambda seed: LocalCause(), use=use),
    "PagMark": Example(
        make=lambda seed: PagMark.ARROW, use=lambda mark, dtype: np.array([mark, *PagMark], dtype=dtype).astype(float)
    ),
}
