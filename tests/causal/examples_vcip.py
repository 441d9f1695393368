import numpy as np

from paperworks.causal import (
    VCIP,
    BehaviourScore,
    Cohort,
    OutcomeSearch,
    Plan,
    perturb_actions,
    tumour_cohort,
    tumour_rollout,
)
from tests.battery import Example

COHORT = tumour_cohort(40, gamma=4.0, length=24, random_state=0)
SMALL = {"horizon": 3, "min_history": 10, "batch_size": 32, "max_steps": 12}


def fit_and_score(model: VCIP | OutcomeSearch | BehaviourScore, dtype: str) -> np.ndarray:
    y, a, static = (part.astype(dtype) for part in (COHORT.outcomes, COHORT.actions, COHORT.static))
    model.fit(y, a, static=static)
    candidates = perturb_actions(a[:6, 18:21], 8, random_state=0)
    return model.score(y[:6, :19], a[:6, :18], candidates, y[:6, 21], static=static[:6])


def roll(cohort: Cohort, dtype: str) -> np.ndarray:
    v, drug = cohort.outcomes[:, 5, 0].astype(dtype), cohort.chemo[:, 5].astype(dtype)
    return tumour_rollout(cohort.params, v, drug, cohort.actions[:, 5:].astype(dtype))


def repeat(plan: Plan, dtype: str) -> np.ndarray:
    model = OutcomeSearch(**SMALL, random_state=3)
    model.fit(COHORT.outcomes.astype(dtype), COHORT.actions.astype(dtype))
    again = model.score(COHORT.outcomes[:2], COHORT.actions[:2], plan.actions[None], [0.0, 1.0])
    return np.r_[plan.actions.ravel(), plan.score, plan.outcome.ravel(), again.ravel()]


def planned(seed: int) -> Plan:
    model = OutcomeSearch(**SMALL, random_state=3).fit(COHORT.outcomes, COHORT.actions)
    return model.plan(COHORT.outcomes[:2], COHORT.actions[:2], [0.0, 1.0], n_iter=4, restarts=2)


EXAMPLES = {
    "VCIP": Example(make=lambda seed: VCIP(**SMALL, random_state=seed), use=fit_and_score),
    "OutcomeSearch": Example(make=lambda seed: OutcomeSearch(**SMALL, random_state=seed), use=fit_and_score),
    "BehaviourScore": Example(make=lambda seed: BehaviourScore(**SMALL, random_state=seed), use=fit_and_score),
    "Cohort": Example(make=lambda seed: tumour_cohort(5, gamma=2.0, length=9, random_state=seed), use=roll),
    "Plan": Example(make=planned, use=repeat),
}
