"""The card of a method: what it is for, what its paper claims, how to get and use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from paperworks.bench import catalog
from paperworks.bench.study import Claim, Contender, Figure, Paper, Study

__all__ = ["Card", "all_cards", "card_for", "card_of"]


@dataclass(frozen=True)
class Card:
    """What a user should know about a method before and beside its results."""

    slug: str
    family: str
    question: str
    paper: Paper
    install: str
    """Command that installs what the method needs."""
    import_line: str
    """Empty for a user's own study, whose method is not part of paperworks."""
    example: str
    """Example of use, as a doctest; empty if there is none."""
    public_names: tuple[str, ...]
    claims: tuple[Claim, ...]
    contenders: tuple[Contender, ...]
    figures: tuple[Figure, ...]
    limits: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain data."""
        return asdict(self)


def card_of(study: Study, ref: str = "") -> Card:
    """Return the card of a study.

    Parameters
    ----------
    study : Study
        The study.
    ref : str, default ""
        Its reference; if it ships with paperworks, the public names and the example come from its method.

    Returns
    -------
    Card
        The card, read from sources only: no method is imported.
    """
    module = catalog.method_module(ref)
    names = catalog.public_names(module) if module else ()
    family = module.rpartition(".")[0]
    extras = f"[{','.join(study.extras)}]" if study.extras else ""
    return Card(
        slug=study.slug,
        family=study.family,
        question=study.question,
        paper=study.paper,
        install=f'pip install "paperworks{extras}"' if extras else "pip install paperworks",
        import_line=f"from {family} import {', '.join(names)}" if names else "",
        example=next((text for name in names if (text := catalog.example_of(module, name))), ""),
        public_names=names,
        claims=study.claims,
        contenders=study.contenders,
        figures=study.figures,
        limits=study.limits,
    )


@cache
def all_cards() -> Mapping[str, Card]:
    """Return the cards of all studies that ship with paperworks, by slug."""
    return {entry.study.slug: card_of(entry.study, entry.ref) for entry in catalog.entries()}


def card_for(name: str) -> Card:
    """Return the card of one study.

    Parameters
    ----------
    name : str
        A slug, a reference or a study file, as `paperworks.bench.catalog.resolve` takes it.

    Returns
    -------
    Card
        The card.

    Raises
    ------
    LookupError
        If there is no such study.
    """
    ref = catalog.resolve(name)
    return card_of(catalog.load_study(ref), ref)
