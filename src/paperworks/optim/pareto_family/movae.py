"""A variational autoencoder for several data sets, with one Gaussian prior each and Pareto points between the priors.

The sets share encoder and decoder; what tells them apart is the prior. Training reconstructs each set under its own
prior; samples at weights lambda start from the Pareto point of the priors: under the reverse divergence from where
they overlap, under the forward one from a cover of all. The paper names the idea; the loss here is this
implementation's construction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive, extra

from .pareto import ParetoFamily
from .simplex import check_weights

with extra("torch"):
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

__all__ = ["MOVAE", "fit_movae"]


class MOVAE(nn.Module):
    r"""Multi-objective variational autoencoder: shared networks, one learned Gaussian prior for each data set.

    The loss of set i is the mean over its rows of
    :math:`-E_q \log p(x|z) + \beta KL(q(z|x) \| p_i(z))`, one draw of z for each row; the loss is their sum plus
    :math:`\rho \sum_i KL(p_i \| N(0, I))`, which keeps the priors from drifting apart.

    Parameters
    ----------
    n_targets : int
        Number of data sets m, at least 2.
    input_dim : int
        Length of a row.
    latent_dim : int, default=8
        Dimension of z.
    hidden : sequence of int, default=(256, 128)
        Widths of the encoder's hidden layers; the decoder mirrors them.
    beta : float, default=1.0
        Weight of the divergence from the prior.
    covariance : {"full", "diag"}, default="full"
        Shape of the priors' covariances.
    likelihood : {"bernoulli", "gaussian"}, default="bernoulli"
        For rows in [0, 1], or for real rows with unit variance.
    device : torch.device or str, optional
        Where the module lives.
    dtype : torch.dtype, optional
        Type of its weights.
    rho : float, default=1e-3
        Weight of the anchor of the priors.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If a size is no integer.

    References
    ----------
    X. Zhang, P. Li, Y. Yu, Y. Zhang, H. Zhao, Q. Zhang, "Multiobjective Distribution Matching", ICML 2025.

    Examples
    --------
    >>> import torch
    >>> from paperworks.optim import MOVAE
    >>> model = MOVAE(n_targets=2, input_dim=16, latent_dim=2, hidden=(8,))
    >>> rows = torch.rand(6, 16)
    >>> bool(model.loss(rows, torch.tensor([0, 0, 0, 1, 1, 1])) > 0)
    True
    >>> model.sample([0.5, 0.5], n=4).shape
    torch.Size([4, 16])
    """

    def __init__(
        self,
        n_targets: int,
        input_dim: int,
        latent_dim: int = 8,
        hidden: Sequence[int] = (256, 128),
        beta: float = 1.0,
        covariance: str = "full",
        likelihood: str = "bernoulli",
        *,
        device: Any = None,
        dtype: Any = None,
        rho: float = 1e-3,
    ) -> None:
        super().__init__()
        self.n_targets = check_integer(n_targets, "n_targets", minimum=2)
        self.input_dim = check_integer(input_dim, "input_dim", minimum=1)
        self.latent_dim = check_integer(latent_dim, "latent_dim", minimum=1)
        self.beta = check_positive(beta, "beta", zero_ok=True)
        self.rho = check_positive(rho, "rho", zero_ok=True)
        self.covariance = check_choice(covariance, "covariance", ("full", "diag"))
        self.likelihood = check_choice(likelihood, "likelihood", ("bernoulli", "gaussian"))
        widths = [check_integer(width, "hidden", minimum=1) for width in hidden]
        kinds = {"device": device, "dtype": dtype}
        self.encoder = _perceptron([input_dim, *widths, 2 * latent_dim], kinds)
        self.decoder = _perceptron([latent_dim, *reversed(widths), input_dim], kinds)
        self.prior_mean = nn.Parameter(torch.zeros(n_targets, latent_dim, **kinds))
        # Lower triangles of the Cholesky factors; the diagonal is kept as its logarithm.
        self.prior_root = nn.Parameter(torch.zeros(n_targets, latent_dim, latent_dim, **kinds))

    def prior(self) -> tuple[Tensor, Tensor]:
        """Return means and Cholesky factors of the priors.

        Returns
        -------
        mean : Tensor, shape (n_targets, latent_dim)
            Means.
        root : Tensor, shape (n_targets, latent_dim, latent_dim)
            Lower Cholesky factors of the covariances.
        """
        diagonal = torch.diagonal(self.prior_root, dim1=1, dim2=2).exp()
        root = torch.diag_embed(diagonal)
        if self.covariance == "full":
            root = root + torch.tril(self.prior_root, -1)
        return self.prior_mean, root

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z|x).

        Parameters
        ----------
        x : Tensor, shape (n, input_dim)
            Rows.

        Returns
        -------
        mean : Tensor, shape (n, latent_dim)
            Means.
        log_variance : Tensor, shape (n, latent_dim)
            Logarithms of the variances, kept within [-12, 12].
        """
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        return mean, 12 * torch.tanh(log_variance / 12)

    def decode(self, z: Tensor) -> Tensor:
        """Mean of p(x|z).

        Parameters
        ----------
        z : Tensor, shape (n, latent_dim)
            Latent points.

        Returns
        -------
        Tensor, shape (n, input_dim)
            Means, in (0, 1) for the Bernoulli likelihood.
        """
        out: Tensor = self.decoder(z)
        return torch.sigmoid(out) if self.likelihood == "bernoulli" else out

    def divergences(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        """KL divergences of the encodings from all priors.

        Parameters
        ----------
        mean : Tensor, shape (n, latent_dim)
            Means of q.
        log_variance : Tensor, shape (n, latent_dim)
            Logarithms of its variances.

        Returns
        -------
        Tensor, shape (n, n_targets)
            KL(q || p_i) in nats.
        """
        prior_mean, root = self.prior()
        eye = torch.eye(self.latent_dim, device=root.device, dtype=root.dtype).expand_as(root)
        unroot = torch.linalg.solve_triangular(root, eye, upper=False)
        precision_diagonal = unroot.square().sum(dim=1)
        away = torch.einsum("ijk,nik->nij", unroot, mean[:, None] - prior_mean).square().sum(dim=2)
        log_det = 2 * torch.diagonal(root, dim1=1, dim2=2).log().sum(dim=1)
        trace = log_variance.exp() @ precision_diagonal.T
        return (trace + away - self.latent_dim + log_det - log_variance.sum(dim=1, keepdim=True)) / 2

    def _evidence(self, x: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Reconstruction losses (n,) from one draw each, and divergences (n, m)."""
        if x.ndim != 2 or x.shape[1] != self.input_dim:
            raise ValueError(f"x must have shape (n, {self.input_dim}), got {tuple(x.shape)}")
        if not bool(torch.isfinite(x).all()):
            raise ValueError("x holds NaN or infinite values")
        if self.likelihood == "bernoulli" and (x.min() < 0 or x.max() > 1):
            raise ValueError(f"x must lie in [0, 1] for likelihood='bernoulli', got {x.min():.4g} to {x.max():.4g}")
        mean, log_variance = self.encode(x)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        out = self.decoder(mean + (log_variance / 2).exp() * noise)
        if self.likelihood == "bernoulli":
            lost = F.binary_cross_entropy_with_logits(out, x, reduction="none").sum(dim=1)
        else:
            lost = ((out - x).square().sum(dim=1) + self.input_dim * math.log(2 * math.pi)) / 2
        return lost, self.divergences(mean, log_variance)

    def _anchor(self) -> Tensor:
        mean, root = self.prior()
        log_det = 2 * torch.diagonal(root, dim1=1, dim2=2).log().sum()
        return self.rho * (root.square().sum() + mean.square().sum() - mean.numel() - log_det) / 2

    def loss(self, x: Tensor, target: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sum over the sets of the mean loss of their rows, plus the anchor of the priors.

        Parameters
        ----------
        x : Tensor, shape (n, input_dim)
            Rows of all sets.
        target : Tensor of int64, shape (n,)
            Set of each row, 0 to n_targets - 1. Sets without rows add nothing.
        generator : torch.Generator, optional
            Source of the draws of z.

        Returns
        -------
        Tensor
            The loss, a scalar in nats.

        Raises
        ------
        ValueError
            If a shape is wrong, a target is no set, or rows are outside the likelihood's range.
        """
        if target.shape != x.shape[:1] or target.numel() == 0:
            raise ValueError(f"target must have shape ({len(x)},) with at least one row, got {tuple(target.shape)}")
        if target.dtype != torch.int64 or target.min() < 0 or target.max() >= self.n_targets:
            raise ValueError(f"target must hold int64 numbers from 0 to {self.n_targets - 1}")
        lost, divergences = self._evidence(x, generator)
        rows = lost + self.beta * divergences.gather(1, target[:, None])[:, 0]
        counts = torch.bincount(target, minlength=self.n_targets).to(rows.dtype)
        return (rows / counts[target]).sum() + self._anchor()

    def conditional_loss(self, x: Tensor, weights: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Loss with priors mixed by weights: rows of set i come with probability weights_i.

        The regulariser is :math:`\sum_i \lambda_i KL(q \| p_i)`, which is
        :math:`KL(q \| p_\lambda) + g(\lambda)` with the reverse Pareto point :math:`p_\lambda` of the priors.

        Parameters
        ----------
        x : Tensor, shape (n, input_dim)
            Rows; row k was drawn from a set chosen with the probabilities ``weights[k]``.
        weights : Tensor, shape (n, n_targets)
            Weights on the simplex.
        generator : torch.Generator, optional
            Source of the draws of z.

        Returns
        -------
        Tensor
            Mean loss plus the anchor of the priors, a scalar in nats.

        Raises
        ------
        ValueError
            If a shape is wrong or rows are outside the likelihood's range.
        """
        if weights.shape != (len(x), self.n_targets):
            raise ValueError(f"weights must have shape ({len(x)}, {self.n_targets}), got {tuple(weights.shape)}")
        lost, divergences = self._evidence(x, generator)
        return (lost + self.beta * (weights * divergences).sum(dim=1)).mean() + self._anchor()

    def pareto(self, divergence: str = "reverse") -> ParetoFamily:
        """Pareto family of the priors.

        Parameters
        ----------
        divergence : {"reverse", "forward"}, default="reverse"
            Which divergence; see `ParetoFamily`.

        Returns
        -------
        ParetoFamily
            Fitted to the priors, in float64.

        Raises
        ------
        ValueError
            If `divergence` is neither.
        """
        with torch.no_grad():
            mean, root = (part.double().cpu().numpy() for part in self.prior())
        targets = [(m, r @ r.T) for m, r in zip(mean, root, strict=True)]
        return ParetoFamily("gaussian", divergence=divergence).fit(targets)

    @torch.no_grad()
    def sample(
        self, weights: ArrayLike, n: int, divergence: str = "reverse", generator: torch.Generator | None = None
    ) -> Tensor:
        """Decode draws from the Pareto point of the priors.

        Parameters
        ----------
        weights : array-like of shape (n_targets,)
            Weights of the sets, on the simplex.
        n : int
            Number of samples.
        divergence : {"reverse", "forward"}, default="reverse"
            Reverse draws from where the priors overlap, forward from a cover of all.
        generator : torch.Generator, optional
            Source of randomness, on the module's device.

        Returns
        -------
        Tensor, shape (n, input_dim)
            Decoder means.

        Raises
        ------
        ValueError
            If the weights aren't on the simplex, `n` is below 1, or `divergence` is neither.
        """
        check_integer(n, "n", minimum=1)
        found = check_weights(weights, self.n_targets)
        if found.ndim != 1:
            raise ValueError(f"weights must have shape ({self.n_targets},), got {found.shape}")
        point = self.pareto(divergence).solve(found)
        like = self.prior_mean
        noise = torch.randn(n, self.latent_dim, generator=generator, device=like.device, dtype=like.dtype)
        root = torch.as_tensor(np.linalg.cholesky(point.cov), device=like.device, dtype=like.dtype)
        return self.decode(torch.as_tensor(point.mean, device=like.device, dtype=like.dtype) + noise @ root.T)

    @torch.no_grad()
    def refit_priors(self, datasets: Sequence[Any]) -> None:
        """Set each prior to the moments of its set's encodings: the forward projection of the aggregate posterior.

        Parameters
        ----------
        datasets : sequence of array-like, each of shape (n_i, input_dim)
            The data sets, in their order.

        Raises
        ------
        ValueError
            If there are not n_targets sets, or a shape is wrong.
        """
        rows = _as_tensors(datasets, self.input_dim, self.prior_mean, self.likelihood)
        if len(rows) != self.n_targets:
            raise ValueError(f"datasets must hold {self.n_targets} sets, got {len(rows)}")
        moments = []
        for x in rows:
            mean, log_variance = (part.double() for part in self.encode(x))
            centre = mean.mean(dim=0)
            away = mean - centre
            cov = away.T @ away / len(x) + torch.diag(log_variance.exp().mean(dim=0))
            if self.covariance == "diag":
                cov = torch.diag(torch.diagonal(cov))
            root = torch.linalg.cholesky(cov)
            moments.append((centre, torch.tril(root, -1) + torch.diag(torch.diagonal(root).log())))
        self.prior_mean.copy_(torch.stack([centre for centre, _ in moments]))
        self.prior_root.copy_(torch.stack([root for _, root in moments]))


def fit_movae(
    datasets: Sequence[Any],
    *,
    conditional: bool = False,
    epochs: int = 30,
    batch_size: int = 128,
    lr: float = 1e-3,
    verbose: int = 0,
    random_state: int | np.random.RandomState | None = None,
    **kw: Any,
) -> MOVAE:
    """Train a `MOVAE` by Adam and refit its priors to the encodings.

    Parameters
    ----------
    datasets : sequence of array-like, each of shape (n_i, input_dim)
        At least two data sets.
    conditional : bool, default=False
        Train at weights drawn uniformly from the simplex (`MOVAE.conditional_loss`) instead of at the sets alone.
    epochs : int, default=30
        Passes over the largest set; smaller ones are reshuffled and go on.
    batch_size : int, default=128
        Rows of each set in a step (all of a smaller set).
    lr : float, default=1e-3
        Step size of Adam.
    verbose : int, default=0
        0 is silent; k prints the mean loss after each k-th epoch.
    random_state : int, RandomState or None, default=None
        Source of initial weights, batches and draws; torch's global generator is left as it was.
    **kw : dict
        Passed to `MOVAE`.

    Returns
    -------
    MOVAE
        The trained module, in evaluation mode.

    Raises
    ------
    ValueError
        If there are fewer than two sets, their row lengths differ, values are not finite or outside the likelihood's
        range, or training diverges.
    TypeError
        If a number has the wrong type.

    References
    ----------
    X. Zhang, P. Li, Y. Yu, Y. Zhang, H. Zhao, Q. Zhang, "Multiobjective Distribution Matching", ICML 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.optim import fit_movae
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.random((40, 16)) * 0.3, 1 - rng.random((40, 16)) * 0.3]
    >>> model = fit_movae(sets, epochs=40, latent_dim=2, hidden=(16,), random_state=0)
    >>> dark, bright = (model.sample(w, 200).mean().item() for w in ([1, 0], [0, 1]))
    >>> dark < bright
    True
    """
    check_integer(epochs, "epochs", minimum=1)
    check_integer(batch_size, "batch_size", minimum=1)
    check_integer(verbose, "verbose", minimum=0)
    check_positive(lr, "lr")
    if not isinstance(datasets, list | tuple) or len(datasets) < 2:
        raise ValueError(f"datasets must be a list of at least 2 arrays, got {type(datasets).__name__}")
    width = check_finite_array(datasets[0], "datasets[0]", ndim=2).shape[1]
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = MOVAE(len(datasets), width, **kw)
    like = model.prior_mean
    rows = _as_tensors(datasets, width, like, model.likelihood)
    generator = torch.Generator(device=like.device).manual_seed(seed)
    chooser = torch.Generator().manual_seed(seed + 1)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    steps = math.ceil(max(len(x) for x in rows) / batch_size)
    queues = [torch.empty(0, dtype=torch.int64) for _ in rows]

    def next_rows(i: int, count: int) -> Tensor:
        while len(queues[i]) < count:
            queues[i] = torch.cat([queues[i], torch.randperm(len(rows[i]), generator=chooser)])
        taken, queues[i] = queues[i][:count], queues[i][count:]
        return rows[i][taken]

    for epoch in range(1, epochs + 1):
        total = 0.0
        for _ in range(steps):
            if conditional:
                size = batch_size * len(rows)
                weights = torch.empty(size, len(rows), dtype=torch.float64).exponential_(generator=chooser)
                weights /= weights.sum(dim=1, keepdim=True)
                chosen = torch.multinomial(weights, 1, generator=chooser)[:, 0]
                order = chosen.argsort(stable=True)
                counts = torch.bincount(chosen, minlength=len(rows)).tolist()
                x = torch.cat([next_rows(i, count) for i, count in enumerate(counts)])
                loss = model.conditional_loss(x, weights[order].to(like), generator)
            else:
                batches = [next_rows(i, min(batch_size, len(x))) for i, x in enumerate(rows)]
                target = torch.cat([torch.full((len(x),), i) for i, x in enumerate(batches)]).to(like.device)
                loss = model.loss(torch.cat(batches), target, generator)
            if not bool(torch.isfinite(loss)):
                raise ValueError(f"training diverged at epoch {epoch}; take a smaller lr")
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach())
        if verbose and epoch % verbose == 0:
            print(f"epoch {epoch}: loss {total / steps:.4f}")
    model.refit_priors(rows)
    return model.eval()


def _perceptron(sizes: list[int], kinds: dict[str, Any]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out, **kinds), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _as_tensors(datasets: Sequence[Any], width: int, like: Tensor, likelihood: str) -> list[Tensor]:
    found = []
    for i, rows in enumerate(datasets):
        plain = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows
        x: NDArray[np.float64] = check_finite_array(plain, f"datasets[{i}]", ndim=2)
        if len(x) < 1 or x.shape[1] != width:
            raise ValueError(f"datasets[{i}] must have shape (n, {width}) with n >= 1, got {x.shape}")
        if likelihood == "bernoulli" and (x.min() < 0 or x.max() > 1):
            raise ValueError(f"datasets[{i}] must lie in [0, 1] for likelihood='bernoulli', up to {x.max():.4g} came")
        found.append(torch.as_tensor(x, device=like.device, dtype=like.dtype))
    return found
