"""SynEVO: one spatiotemporal model for several sources on the same nodes, which grows with new ones.

Domains are fed from easy to hard, as the gradients of separately trained copies tell; easy ones with much dropout and
weight decay, so that the shared container keeps what is common, hard ones with none. A new domain enters the container
if its windows move with those of a known one; an unrelated domain gets a model of its own, and the container stays as
it is.

Use it where several related sources exist and new ones come with little data. With a single source, train the backbone
alone.

Reference: J. Liu, Z. Yi, Z. Zhou, Q. Huang, K. Yang, X. Wang, Y. Wang, "SynEVO: A neuro-inspired spatiotemporal
evolutional framework for cross-domain adaptation", ICML 2025.
"""

from .backbone import GraphWaveNet
from .curriculum import curriculum_order, elastic_factors
from .estimator import SynEVO
from .gate import contrastive_loss, domain_distance, synapse_gate

__all__ = [
    "GraphWaveNet",
    "SynEVO",
    "contrastive_loss",
    "curriculum_order",
    "domain_distance",
    "elastic_factors",
    "synapse_gate",
]
