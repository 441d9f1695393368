"""Acceptance: greedy by brute force, sampling by exact probabilities."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from paperworks.inference import speculative_accept  # noqa: E402
from paperworks.inference.bandit_spec.verify import draw  # noqa: E402

V = 8


def chain(seed: int) -> object:
    """Logits of the next token for each last token."""
    return 1.5 * torch.randn(V, V, generator=torch.Generator().manual_seed(seed))


def point_mass(last: int, n: int) -> list[int]:
    return [(last + 1 + i) % V for i in range(n)]


def two_tokens(target: object, draft: object | None, generator: object, gamma: int) -> tuple[int, int]:
    """Run rounds from token 0 until two tokens are there."""
    text = [0]
    while len(text) < 3:
        if draft is None:
            drafted, probs = point_mass(text[-1], gamma), None
        else:
            drafted, rows = [], []
            for _ in range(gamma):
                rows.append(torch.softmax(draft[(text + drafted)[-1]], -1))
                drafted.append(int(torch.multinomial(rows[-1], 1, generator=generator)))
            probs = torch.stack(rows)
        logits = target[[text[-1], *drafted]]
        text += speculative_accept(logits, torch.tensor(drafted), probs, True, generator).tolist()
    return text[1], text[2]


def chi_square(draft_seed: int | None, gamma: int, runs: int) -> float:
    target = chain(1)
    draft = None if draft_seed is None else chain(draft_seed)
    generator = torch.Generator().manual_seed(0)
    counts = np.zeros((V, V))
    for _ in range(runs):
        counts[two_tokens(target, draft, generator, gamma)] += 1
    p = torch.softmax(target.double(), -1).numpy()
    expected = p[0][:, None] * p * runs
    assert expected.min() > 0
    rare = expected < 5  # pooled, as the test asks for
    observed = [*counts[~rare], counts[rare].sum()]
    return float(stats.chisquare(observed, [*expected[~rare], expected[rare].sum()]).pvalue)


@pytest.mark.parametrize(("draft_seed", "gamma"), [(2, 2), (None, 2), (1, 1)])
def test_sampled_text_follows_the_target(draft_seed: int | None, gamma: int) -> None:
    assert chi_square(draft_seed, gamma, 3000) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("draft_seed", "gamma"), [(2, 2), (None, 2)])
def test_sampled_text_follows_the_target_in_many_runs(draft_seed: int | None, gamma: int) -> None:
    assert chi_square(draft_seed, gamma, 200_000) > 1e-3


@pytest.mark.parametrize("point", [False, True])
def test_acceptance_rate_is_the_overlap_of_the_laws(point: bool) -> None:
    """P(accept) = sum min(P, Q), or P(x) for a point mass at x; first tokens follow P either way."""
    target, draft = chain(3)[0], chain(4)[0]
    p, q = torch.softmax(target, -1), torch.softmax(draft, -1)
    generator = torch.Generator().manual_seed(5)
    accepted, first, peak = 0, np.zeros(V), int(p.argmax())
    for _ in range(3000):
        x = torch.tensor([peak]) if point else torch.multinomial(q, 1, generator=generator)
        got = speculative_accept(torch.stack([target, target]), x, None if point else q[None], True, generator)
        accepted += len(got) == 2
        first[got[0]] += 1
    expected = float(p[peak]) if point else float(torch.minimum(p, q).sum())
    assert 0.05 < expected < 0.95
    assert accepted / 3000 == pytest.approx(expected, abs=0.035)
    assert stats.chisquare(first, p.double().numpy() / p.double().numpy().sum() * 3000).pvalue > 1e-3


def test_equal_laws_accept_everything() -> None:
    logits = chain(1)[:5]
    q = torch.softmax(logits, -1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        x = torch.multinomial(q[:4], 1, generator=generator)[:, 0]
        got = speculative_accept(logits, x, q[:4], True, generator)
        assert got[:4].tolist() == x.tolist()
        assert len(got) == 5


def test_impossible_tokens_never_come() -> None:
    """A token that the settings forbid has probability 0: as a draft, as a correction, as a bonus."""
    logits = torch.zeros(3, V)
    logits[:, 3] = -torch.inf
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        got = speculative_accept(logits, torch.tensor([3, 3]), None, True, generator)
        assert len(got) == 1
        assert got[0] != 3
    q = torch.full((2, V), 1 / V)
    seen = {
        token
        for _ in range(300)
        for token in speculative_accept(logits, torch.tensor([3, 1]), q, True, generator).tolist()
    }
    assert seen == set(range(V)) - {3}


def test_a_draft_without_a_law_is_always_replaced() -> None:
    """NaN from a broken draft model must not reach the text."""
    logits = chain(6)[:2]
    generator = torch.Generator().manual_seed(1)
    counts = np.zeros(V)
    for _ in range(3000):
        got = speculative_accept(logits, torch.tensor([1]), torch.full((1, V), torch.nan), True, generator)
        assert len(got) == 1
        counts[got[0]] += 1
    assert stats.chisquare(counts, torch.softmax(logits[0].double(), -1).numpy() * 3000).pvalue > 1e-3


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda w: sum(w) > 0.01), st.floats(0, 1))
def test_draw_is_the_inverse_distribution_function(weights: list[float], u: float) -> None:
    token = int(draw(torch.tensor(weights, dtype=torch.float64), torch.tensor([u], dtype=torch.float64)))
    assert weights[token] > 0
    below = sum(weights[:token])
    assert below <= u * sum(weights) + 1e-12
    assert below + weights[token] >= u * sum(weights) - 1e-12


@given(st.integers(0, 3), st.integers(0, 10_000))
def test_greedy_by_brute_force(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, drafted = rng.normal(size=(n + 1, 3)), rng.integers(3, size=n)
    expected = []
    for row, token in itertools.zip_longest(logits, drafted):
        expected.append(row.argmax())
        if row.argmax() != token:
            break
    got = speculative_accept(torch.tensor(logits), torch.tensor(drafted, dtype=torch.long))
    assert got.tolist() == expected
    assert got.dtype == torch.long


def test_same_generator_same_tokens() -> None:
    logits = torch.zeros(4, 50)
    runs = [
        speculative_accept(logits, torch.tensor([1, 2, 3]), None, True, torch.Generator().manual_seed(s)).tolist()
        for s in (0, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_bad_input_is_named() -> None:
    logits = torch.zeros(3, 5)
    with pytest.raises(ValueError, match="target_logits must have shape"):
        speculative_accept(logits, torch.tensor([1]))
    with pytest.raises(ValueError, match="draft_probs must have shape"):
        speculative_accept(logits, torch.tensor([1, 2]), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"draft_ids must lie in \[0, 4\]"):
        speculative_accept(logits, torch.tensor([1, 5]))
    for bad in (torch.nan, -torch.inf):
        for do_sample in (False, True):
            with pytest.raises(ValueError, match="hold no NaN"):
                speculative_accept(torch.full((1, 5), bad), torch.tensor([], dtype=torch.long), None, do_sample)
