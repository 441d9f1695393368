"""Speculative decoding in which a bandit chooses the draft: several small drafts, one of which suits the present text.

Each round one arm (a small model, a table of continuations, a lookup in the text, or nothing) drafts a few tokens, and
one forward of the model accepts a prefix of them and adds a token of its own. The tokens gained are the reward from
which a bandit learns what to use next, so the best draft for code, prose or copying is found while the text grows. The
text itself is that of the model alone: equal when decoding greedily, equal in law when sampling.

Reference: Y. Hou, F. Zhang, C. Du, X. Zhang, J. Pan, T. Pang, C. Du, V. Y. F. Tan, Z. Yang, "BanditSpec: Adaptive
Speculative Decoding via Bandit Algorithms", ICML 2025, arXiv 2505.15141.

Use it with transformers models, one prompt at a time, when no single draft or draft length is best for all texts. Don't
use it for large batches, where a model is bound by computation and drafts only add to it, or where one draft is known
to be best: then ``algorithm="fixed:0"`` with that arm alone saves the exploration.
"""

from .baselines import GreedySpec, ThompsonSpec
from .decoding import BanditSpec
from .drafts import Arm, NGramDraft
from .selectors import EXP3Spec, UCBSpec
from .simulation import expected_accepted, simulate_stopping_time
from .verify import speculative_accept

__all__ = [
    "Arm",
    "BanditSpec",
    "EXP3Spec",
    "GreedySpec",
    "NGramDraft",
    "ThompsonSpec",
    "UCBSpec",
    "expected_accepted",
    "simulate_stopping_time",
    "speculative_accept",
]
