"""A fingerprint changes with everything that a result depends on, and with nothing else."""

import re
import shutil
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paperworks
from paperworks.bench import fingerprint as module
from paperworks.bench.fingerprint import (
    fingerprint,
    payload_digest,
    relevant_versions,
    source_digest,
    source_files,
)
from paperworks.bench.sending import prepare
from paperworks.bench.study import Contender
from paperworks.bench.worker import read_study

ARITHMETIC = f"file:{Path(__file__).parent / 'studies' / 'arithmetic.py'}"

texts = st.text(max_size=8)
components = st.fixed_dictionaries(
    {
        "study": texts,
        "contender": texts,
        "dataset": texts.filter(lambda text: not text.startswith("file:")),
        "seed": st.integers(0, 2**32),
        "scale": st.sampled_from(["smoke", "quick", "paper"]),
        "source": texts,
        "version": texts,
        "versions": st.dictionaries(texts, texts, max_size=3),
        "threads": st.integers(1, 64),
        "machine": texts,
    }
)


@given(components, components)
def test_equal_components_and_only_those_have_equal_fingerprints(one, other):
    assert (fingerprint(**one) == fingerprint(**other)) == (one == other)


@given(components, st.data())
def test_every_component_counts(parts, data):
    name = data.draw(st.sampled_from(sorted(parts)))
    changed = {
        **parts,
        name: data.draw(st.just({**parts[name], "x": "y"}) if name == "versions" else _other(parts[name])),
    }
    if changed != parts:
        assert fingerprint(**changed) != fingerprint(**parts)


def _other(value):
    return st.just(value + 1) if isinstance(value, int) else st.sampled_from([value + " ", value + "\x1f", "?" + value])


@given(components)
def test_it_is_a_sha256(parts):
    assert re.fullmatch(r"[0-9a-f]{64}", fingerprint(**parts))


# --- Own files ---

_paths = st.text(min_size=1, max_size=20)
_settings = st.dictionaries(
    st.sampled_from(["target", "kind", "task", "encoding", "drop"]), st.text(min_size=1, max_size=8), max_size=4
)
_digests = st.text("0123456789abcdef", min_size=64, max_size=64)


def _ref(path: str, settings: dict[str, str], digest: str) -> str:
    return f"file:{quote(path.encode('utf-8', 'replace'))}?{urlencode({**settings, 'sha256': digest})}"


def _of(dataset: str) -> str:
    return fingerprint(
        study="s", contender="c", dataset=dataset, seed=0, scale="quick", source="", version="1", versions={}
    )


@given(_paths, _paths, _settings, _digests)
def test_a_moved_file_is_the_same(here, there, settings, digest):
    assert _of(_ref(here, settings, digest)) == _of(_ref(there, dict(reversed(settings.items())), digest))


@given(_paths, _settings, _settings, _digests, _digests)
def test_content_and_settings_of_a_file_count(path, settings, others, digest, another):
    same = settings == others and digest == another
    assert (_of(_ref(path, settings, digest)) == _of(_ref(path, others, another))) == same


def test_a_file_without_digest_is_known_by_its_place():
    assert _of("file:/a/b.csv?target=y") != _of("file:/a/c.csv?target=y")
    assert _of("file:/a/b.csv") != _of("file:/a/c.csv")


def test_own_files_as_they_are_referred_to(tmp_path):
    from paperworks.datasets import own_file

    text = "size,sold\n" + "".join(f"{i},{'yes' if i % 2 else 'no'}\n" for i in range(20))
    places = [tmp_path / "a b?c&d.csv", tmp_path / "deep" / "größe.csv"]
    places[1].parent.mkdir()
    for place in places:
        place.write_text(text)
    marks = [_of(own_file(place, target="sold").ref) for place in places]
    assert marks[0] == marks[1]
    places[1].write_text(text.replace("3,yes", "3,no"))
    assert _of(own_file(places[1], target="sold").ref) != marks[0]


# --- Sources ---


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the source tree in which files can be changed."""
    root = tmp_path / "paperworks"
    shutil.copytree(Path(paperworks.__file__).parent, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "conformal" / "__init__.pyi").write_text(
        "from .alpha import Alpha as Alpha\nfrom .beta import Beta as Beta\nfrom . import gamma as gamma\n"
    )
    for name, text in {
        "alpha.py": "from paperworks._numerics import ranks\nfrom ._inner import thing\nclass Alpha: pass\n",
        "beta.py": "class Beta: pass\n",
        "gamma.py": "def gamma(): pass\n",
        "_inner.py": "thing = 1\n",
    }.items():
        (root / "conformal" / name).write_text(text)
    (root / "_numerics" / "ranks.py").write_text("import numpy\n")
    monkeypatch.setattr(module, "_package_folder", lambda: root)
    for cached in (module._top_level, module._stub_names, module._imports, module._content_digest):
        cached.cache_clear()
    yield root
    module._top_level.cache_clear()


STUDY = """
from paperworks.bench.study import Study
def trial(contender, dataset, seed, scale):
    from paperworks.conformal import Alpha
    return {}
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "mine" / "study.py"
    path.parent.mkdir()
    path.write_text(STUDY)
    return path


def _change(path: Path) -> None:
    path.write_text(path.read_text() + "# changed\n")


def test_imports_lead_through_the_family_to_the_method_and_on(package, study):
    assert sorted(source_files(f"file:{study}")) == [
        "<study>",
        "paperworks._numerics.ranks",
        "paperworks.conformal._inner",
        "paperworks.conformal.alpha",
    ]


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("conformal/alpha.py", True),
        ("conformal/_inner.py", True),
        ("_numerics/ranks.py", True),
        ("conformal/beta.py", False),
        ("conformal/__init__.py", False),
        ("conformal/__init__.pyi", False),
        ("bench/study.py", False),
        ("bench/runner.py", False),
        ("__init__.py", False),
        ("imbalanced/__init__.py", False),
    ],
)
def test_the_source_that_is_used_matters_and_no_other(package, study, changed, matters):
    before = source_digest(f"file:{study}")
    _change(package / changed)
    assert (source_digest(f"file:{study}") != before) == matters


def test_the_study_itself_matters_but_not_its_place(package, study, tmp_path):
    before = source_digest(f"file:{study}")
    moved = tmp_path / "elsewhere" / "renamed.py"
    moved.parent.mkdir()
    shutil.copy(study, moved)
    assert source_digest(f"file:{moved}") == before
    moved.write_bytes(moved.read_bytes().replace(b"\n", b"\r\n"))
    assert source_digest(f"file:{moved}") == before
    _change(study)
    assert source_digest(f"file:{study}") != before


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("from paperworks.conformal import gamma", {"paperworks.conformal.gamma"}),
        ("from paperworks.conformal.beta import Beta as B", {"paperworks.conformal.beta"}),
        ("import paperworks.conformal.beta as b", {"paperworks.conformal.beta"}),
        ("from paperworks.conformal import Beta, gamma", {"paperworks.conformal.beta", "paperworks.conformal.gamma"}),
        ("import paperworks\nx = paperworks.conformal.Beta(1).fit", {"paperworks.conformal.beta"}),
        ("import paperworks as pw\nx = pw.conformal.Beta", {"paperworks.conformal.beta"}),
        ("from paperworks import conformal as c\nc.Beta", {"paperworks.conformal.beta"}),
        ("from paperworks.bench.seeds import rng_for", {"paperworks.bench.seeds"}),
        ("import numpy, torch, json, os.path", set()),
        ("from no_such_package_at_all import x", set()),
    ],
)
def test_every_form_of_import(package, study, statement, expected):
    study.write_text(f"def trial():\n    {statement.replace(chr(10), chr(10) + '    ')}\n")
    found = set(source_files(f"file:{study}")) - {"<study>"}
    if "import conformal as" in statement:
        assert expected <= found  # the whole family, to be safe
    else:
        assert found == expected


def test_a_package_counts_with_all_its_files(package, study):
    folder = package / "conformal" / "delta"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .core import Delta\n")
    (folder / "core.py").write_text("class Delta: pass\n")
    (folder / "table.csv").write_text("1,2\n")
    study.write_text("from paperworks.conformal.delta import Delta\n")
    digests = [source_digest(f"file:{study}")]
    for name in ("core.py", "table.csv"):
        _change(folder / name)
        digests.append(source_digest(f"file:{study}"))
    assert len(set(digests)) == 3


def test_modules_of_the_user_count_and_cycles_end(package, study, monkeypatch):
    (study.parent / "mine_helper.py").write_text("import mine_other\n")
    (study.parent / "mine_other.py").write_text("import mine_helper\nfrom paperworks.conformal import Beta\n")
    study.write_text("import mine_helper\n")
    assert set(source_files(f"file:{study}")) == {
        "<study>",
        "mine_helper",
        "mine_other",
        "paperworks.conformal.beta",
    }
    before = source_digest(f"file:{study}")
    _change(study.parent / "mine_other.py")
    assert source_digest(f"file:{study}") != before


def test_a_pickled_study_counts_with_its_values_and_the_modules_it_names(package):
    def payload(number: int) -> bytes:
        def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
            from paperworks.conformal import beta

            return {"score": number, "loss": beta.value}

        import dataclasses

        return prepare(dataclasses.replace(read_study(ARITHMETIC), trial=trial)).payload

    one = payload(1)
    assert payload_digest(one) == payload_digest(payload(1))
    assert payload_digest(one) != payload_digest(payload(2))
    before = payload_digest(one)
    _change(package / "conformal" / "beta.py")
    assert payload_digest(one) != before


# --- Versions ---


def test_versions_are_those_of_the_contender_and_the_study():
    import numpy

    study = read_study(ARITHMETIC)
    versions = relevant_versions(study, Contender("x", "peer", "s", requires=("hypothesis", "no-such-distribution")))
    assert versions["numpy"] == numpy.__version__
    assert versions["hypothesis"]
    assert versions["no-such-distribution"] == ""
    assert "hypothesis" not in relevant_versions(study, study.contenders[0])
    assert "pytest" not in versions
