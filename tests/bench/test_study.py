"""The contract of a study: what is malformed is refused where it is written, with its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import (
    Claim,
    Contender,
    Figure,
    Metric,
    OwnData,
    Paper,
    Scale,
    Study,
    StudyError,
)


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    return {"distance": 0.0}


PAPER = Paper("On Nothing", "A. Nonymous", "Nowhere 2025", "https://example.org")
SCALES = {"smoke": Scale(1), "quick": Scale(2, datasets=("a",)), "paper": Scale(9, contenders=("ours",))}


def study(**changes: Any) -> Study:
    fields: dict[str, Any] = {
        "slug": "on-nothing",
        "family": "nothing",
        "paper": PAPER,
        "question": "Is there anything?",
        "datasets": ("a", "b"),
        "contenders": (Contender("ours", "method", "section 1"), Contender("theirs", "peer", "a library")),
        "metrics": (Metric("distance", "lower"),),
        "claims": (Claim("ours errs less", "distance", "ours", "theirs", "better"),),
        "scales": SCALES,
        "trial": trial,
    }
    return Study(**(fields | changes))


def test_a_sound_study_is_frozen_and_does_nothing() -> None:
    made = study()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.slug = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.scales["quick"] = Scale(3)  # type: ignore[index]
    with pytest.raises(TypeError):
        Scale(1, settings={"n": 3}).settings["n"] = 4  # type: ignore[index]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slug": "On Nothing"}, "On Nothing"),
        ({"family": "no-thing"}, "no-thing"),
        ({"question": " "}, "question"),
        ({"datasets": ()}, "datasets"),
        ({"datasets": ["a"]}, "datasets"),
        ({"datasets": ("a", "a")}, "twice: a"),
        ({"contenders": (Contender("theirs", "peer", "a library"),)}, "method"),
        ({"metrics": ()}, "metrics"),
        ({"claims": (Claim("c", "speed", "ours", "theirs", "better"),)}, "speed"),
        ({"claims": (Claim("c", "distance", "nobody", "theirs", "better"),)}, "nobody"),
        ({"claims": (Claim("c", "distance", "ours", "nobody", "better"),)}, "nobody"),
        ({"claims": (Claim("c", "distance", "ours", 1.0, "better", datasets=("z",)),)}, "z"),
        ({"scales": {"quick": Scale(1)}}, "smoke, quick, paper"),
        ({"scales": SCALES | {"quick": Scale(1, datasets=("z",))}}, "z"),
        ({"scales": SCALES | {"quick": Scale(1, contenders=("nobody",))}}, "nobody"),
        ({"figures": (Figure("speed", "ours", "a", 1.0, "Table 1"),)}, "speed"),
        ({"trial": None}, "trial"),
        ({"paper": "On Nothing"}, "paper"),
    ],
)
def test_a_malformed_study_says_what_is_wrong(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        study(**changes)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Paper("", "A", "V", "u"), "title"),
        (lambda: Metric("distance", "smaller"), "smaller"),  # type: ignore[arg-type]
        (lambda: Metric("seed", "lower"), "seed"),
        (lambda: Contender("x", "rival", "s"), "rival"),  # type: ignore[arg-type]
        (lambda: Contender("x", "peer", "s", requires="mapie"), "requires"),  # type: ignore[arg-type]
        (lambda: Claim("c", "m", "a", "b", "best"), "best"),  # type: ignore[arg-type]
        (lambda: Claim("c", "m", "a", "b", "better", margin=-1), "margin"),
        (lambda: Claim("c", "m", "a", "b", "ratio", margin=0), "margin"),
        (lambda: Claim("c", "m", "a", float("nan"), "better"), "against"),
        (lambda: Scale(0), "seeds"),
        (lambda: Scale(True), "seeds"),
        (lambda: Figure("m", "c", "d", float("inf"), "Table 1"), "value"),
        (lambda: OwnData("picture", "none"), "picture"),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_part_says_what_is_wrong(make: Any, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        make()


@given(
    st.lists(st.one_of(st.text(), st.integers()), max_size=4), st.lists(st.one_of(st.text(), st.integers()), max_size=4)
)
def test_streams_are_the_same_exactly_for_the_same_names(left: list[str | int], right: list[str | int]) -> None:
    same = [(type(x), x) for x in left] == [(type(x), x) for x in right]
    separated = not any("\x1f" in x for x in [*left, *right] if isinstance(x, str))
    if same:
        assert rng_for(*left).random() == rng_for(*right).random()
    elif separated:
        assert seed_for(*left) != seed_for(*right)


def test_a_seed_is_the_same_on_every_machine() -> None:
    assert seed_for("split", "wine", 0) == 1329606687
