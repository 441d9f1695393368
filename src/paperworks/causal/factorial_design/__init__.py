"""Dosages for experiments with many combined treatments: how often each treatment is given, round by round.

Each unit receives every treatment independently with that treatment's dosage (its probability), so that only p rates
have to be set instead of a list of exact combinations. The outcome is a polynomial of order k in the treatments, coded
-1 and +1; how well its coefficients can be learnt is governed by the expected Gram matrix of a dosage, whose entries
are products of a few numbers. In one round all dosages 1/2 are best up to a vanishing factor; later rounds choose the
dosages that best complement what the past units have already shown.

Reference: D. Shyamal, J. Zhang, C. Uhler, "Probabilistic Factorial Experimental Design for Combinatorial
Interventions", ICML 2025, arXiv:2506.03363.

Use it where rates are what you control (pooled screens, feature flags, mixtures of drugs), with many treatments, or in
several small, noisy rounds. If you can assemble any combination by hand and need one round only, a regular fraction
(`half_fraction`) has a slightly smaller error.

The pieces: `terms` (the terms of the polynomial and their bookkeeping), `criteria` (closed forms and the acquisition
with its gradient), `dosages` (the best dosage under constraints), `estimates` (least squares, truncated and ridge),
`design` (all of it as one object), `fractions` (regular two-level fractions).
"""

from paperworks.causal.factorial_design.design import FactorialDesign
from paperworks.causal.factorial_design.fractions import half_fraction

__all__ = ["FactorialDesign", "half_fraction"]
