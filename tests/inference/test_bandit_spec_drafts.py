"""Tables and lookups by brute force; arms and what makes a bad one."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from paperworks.inference import Arm, NGramDraft  # noqa: E402
from paperworks.inference.bandit_spec.drafts import Lookup, as_arm  # noqa: E402

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=25)


def most_frequent(texts: list[list[int]], prefix: list[int], order: int) -> int:
    """Scan all texts for the longest suffix of the prefix that something follows."""
    for n in range(min(order - 1, len(prefix)), -1, -1):
        suffix = prefix[len(prefix) - n :]
        after = Counter(text[i + n] for text in texts for i in range(len(text) - n) if text[i : i + n] == suffix)
        if after:
            return min(after, key=lambda token: (-after[token], token))
    raise AssertionError


@given(st.lists(tokens, min_size=1, max_size=4), st.lists(st.integers(0, 5), max_size=8), st.integers(1, 5))
def test_table_by_brute_force(texts: list[list[int]], prefix: list[int], order: int) -> None:
    draft = NGramDraft(order).fit(texts)
    text = list(prefix)
    for _ in range(4):
        text.append(most_frequent(texts, text, order))
    assert draft.propose(prefix, 4) == text[len(prefix) :]
    assert draft.max_token_ == max(map(max, texts))


def test_no_context_spans_two_texts() -> None:
    draft = NGramDraft(order=3).fit([[1, 2], [3, 4]])
    assert (2,) not in draft.table_
    assert draft.propose([1, 2], 1) == [1]  # back-off to none: all tokens once, the smallest wins


@pytest.mark.parametrize("kind", [tuple, np.array, torch.tensor])
def test_table_takes_any_sequence(kind: object) -> None:
    lists = NGramDraft(3).fit([[1, 2, 3, 1, 2]]).table_
    assert NGramDraft(3).fit([kind([1, 2, 3, 1, 2])]).table_ == lists


def test_bad_tables_are_named() -> None:
    for texts, error, message in (
        ([], ValueError, "at least one token"),
        ([[]], ValueError, "at least one token"),
        ([[1, -2]], ValueError, ">= 0"),
        ([[1.5]], TypeError, "integers"),
        ([[True]], TypeError, "integers"),
        (["text"], TypeError, "integers"),
    ):
        with pytest.raises(error, match=message):
            NGramDraft().fit(texts)
    with pytest.raises(ValueError, match="order"):
        NGramDraft(0).fit([[1]])
    with pytest.raises(NotFittedError):
        NGramDraft().propose([1], 2)
    with pytest.raises(ValueError, match="length"):
        NGramDraft().fit([[1]]).propose([1], -1)


def latest_match(text: list[int], length: int, max_ngram: int) -> list[int]:
    """Scan the text from its end for its own last n-gram, the longest n first; a copy goes on with itself."""
    for n in range(min(max_ngram, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                grown = list(text)
                for i in range(length):
                    grown.append(grown[end + i])
                return grown[len(text) :]
    return []


@given(tokens, st.integers(1, 4), st.integers(0, 6), st.lists(st.integers(1, 4), max_size=6))
def test_lookup_by_brute_force_while_the_text_grows(
    text: list[int], max_ngram: int, length: int, steps: list[int]
) -> None:
    lookup = Lookup(max_ngram)
    for step in [0, *steps]:
        text = text + [(i * i + len(text)) % 3 for i in range(step)]
        assert lookup.propose(text, length) == latest_match(text, length, max_ngram)


def test_lookup_of_one_token_finds_nothing() -> None:
    assert Lookup(4).propose([3], 8) == []
    assert Lookup(4).propose([3, 3], 3) == [3, 3, 3]


@pytest.fixture(scope="module")
def model() -> object:
    config = transformers.LlamaConfig(
        vocab_size=11, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    return transformers.LlamaForCausalLM(config)


def test_forms_of_an_arm(model: object) -> None:
    assert as_arm(model).draft is model
    assert as_arm(model).length == 4
    assert as_arm({"prompt_lookup": 2, "length": 5}).label == "prompt lookup 2 x 5"
    assert as_arm({"length": 0}).label == "plain"
    assert as_arm({"draft": model, "length": 0}).label == "plain"
    assert as_arm({"draft": model, "name": "small"}).label == "small"
    arm = Arm(table=NGramDraft().fit([[1]]))
    assert as_arm(arm) is arm


def test_bad_arms_are_named(model: object) -> None:
    table = NGramDraft().fit([[1]])
    for given_, error, message in (
        ({}, ValueError, "got none with length=4"),
        ({"draft": model, "table": table}, ValueError, "got draft and table"),
        ({"prompt_lookup": 2, "table": table}, ValueError, "got prompt_lookup and table"),
        ({"prompt_lookup": 0}, ValueError, "prompt_lookup"),
        ({"prompt_lookup": 2, "length": -1}, ValueError, "length"),
        ({"prompt_lookup": 2, "length": 65}, ValueError, "length"),
        ({"prompt_lookup": 2, "cost": -1.0}, ValueError, "cost"),
        ({"prompt_lookup": 2, "depth": 1}, ValueError, "'depth'"),
        ({"draft": "gpt2"}, TypeError, "draft"),
        ({"table": {}}, TypeError, "table"),
        ({"table": NGramDraft()}, NotFittedError, "not fitted"),
    ):
        with pytest.raises(error, match=message):
            as_arm(given_)
    with pytest.raises(TypeError, match="each arm"):
        as_arm("lookup")
