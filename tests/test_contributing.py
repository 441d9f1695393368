"""The worked example of CONTRIBUTING.md is real: its files make a method that passes the battery and runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the files of the worked example in it."""
    root = tmp_path_factory.mktemp("project")
    for name in ("src", "benchmarks"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
    (root / "tests").mkdir()
    for name in ("__init__.py", "battery.py", "test_common.py"):
        shutil.copy(ROOT / "tests" / name, root / "tests" / name)
    shutil.copy(ROOT / "pyproject.toml", root)
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", guide, flags=re.DOTALL)
    assert len(blocks) == 7
    for place, code in blocks:
        file = root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
    for package in ("src/paperworks/studies/robust", "tests/robust"):
        (root / package / "__init__.py").touch()
    init = root / "src/paperworks/__init__.py"
    text, count = re.subn(r"FAMILIES = \(", 'FAMILIES = ("robust", ', init.read_text(encoding="utf-8"))
    assert count == 1
    init.write_text(text, encoding="utf-8")
    page = root / "docs/methods/trimmed.md"
    page.parent.mkdir(parents=True)
    page.touch()
    (root / "README.md").write_text("| `trimmed` |\n", encoding="utf-8")
    return root


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{project / 'src'}{os.pathsep}{project}", "COLUMNS": "120"}
    return subprocess.run([sys.executable, *command], cwd=project, env=env, capture_output=True, text=True)


def test_its_tests_and_the_battery_pass_unedited(project: Path) -> None:
    done = run(project, "-m", "pytest", "-q", "-k", "trimmed or Trimmed", "tests")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed >= 10, done.stdout
    assert "failed" not in done.stdout


def test_its_study_runs_and_holds(project: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "results.sqlite")
    done = run(project, "-m", "paperworks", "run", "trimmed", "--store", store, "--no-report")
    assert done.returncode == 0, done.stderr
    assert "holds" in done.stdout
    assert "trimmed" in run(project, "-m", "paperworks", "list", "--store", store).stdout
