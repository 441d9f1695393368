"""Constrained cuts against plain spectral clustering and the unsymmetric solver for two Laplacians."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
from sklearn.cluster import SpectralClustering
from sklearn.neighbors import kneighbors_graph

from benchmarks import Case
from paperworks.clustering import ConstrainedSpectralCut, sbm_pair
from paperworks.clustering.constrained_cut.problem import Problem, laplacian
from paperworks.clustering.constrained_cut.spectrum import grounded, neutral_pairs

__all__ = ["cases"]


def _against_qz() -> Case:
    G, H, _ = sbm_pair(600, 0.2, 0.15, seed=0)
    problem = Problem(G, H, np.zeros(600))
    weight, nodes = grounded(problem, None, None)
    L_G, L_H = laplacian(G).toarray(), laplacian(H).toarray()
    rng = np.random.RandomState(0)
    return Case(
        "second eigenvector, block model of 600 nodes, dense",
        lambda: neutral_pairs(problem, 2, weight=weight, nodes=nodes, solver="dense", rng=rng),
        lambda: scipy.linalg.eig(L_G, L_H),
        "scipy.linalg.eig(L_G, L_H) by QZ",
        "a negative loop makes L_H positive definite: a symmetric solver for few values is enough",
    )


def _against_spectral(n: int) -> Case:
    X = np.random.default_rng(0).random((n, 2))
    found = kneighbors_graph(X, 10, mode="connectivity")
    G = 0.5 * (found + found.T)
    pairs = np.random.default_rng(1).integers(0, n, (1000, 2))
    apart = pairs[(X[pairs[:, 0], 0] < 0.5) != (X[pairs[:, 1], 0] < 0.5)]
    ours = ConstrainedSpectralCut(affinity="precomputed", random_state=0)
    peer = SpectralClustering(2, affinity="precomputed", random_state=0)

    def plain() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(G)

    return Case(
        f"whole fit, neighbour graph of {n:,} nodes, {len(apart)} cannot-links and background",
        lambda: ours.fit(G, cannot_link=apart),
        plain,
        "sklearn SpectralClustering on G, which ignores the pairs",
        "one sparse factorisation; the background is never formed",
    )


def cases() -> list[Case]:
    """Return the cases of the benchmark."""
    return [_against_qz(), _against_spectral(5000), _against_spectral(20000)]
