"""Newly published machine-learning methods as parts people can use, each proven by a command.

Methods live in families (`paperworks.conformal`, `paperworks.imbalanced`, ...); a family imports nothing before
one of its names is used, so that `import paperworks` stays fast and needs no extra.
"""

import lazy_loader as _lazy

__version__ = "0.1.0"

FAMILIES = (
    "bayes",
    "causal",
    "clustering",
    "conformal",
    "dynamics",
    "evaluate",
    "imbalanced",
    "inference",
    "online",
    "optim",
    "recommend",
)

__getattr__, __dir__, __all__ = _lazy.attach(__name__, submodules=[*FAMILIES, "bench", "datasets", "studies"])
__all__ += ["FAMILIES", "__version__"]
