"""Every mutant still fits the source, changes it, and names tests that exist. Whether it is killed,
``make mutants`` shows."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from campaigns.mutants.catalogue import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_a_mutant_fits_the_source(mutant: Mutant, tmp_path: Path) -> None:
    file = Path("src", "fadecount", mutant.path)
    (tmp_path / file).parent.mkdir(parents=True)
    shutil.copy(ROOT / file, tmp_path / file)
    mutant.apply(tmp_path)
    broken = (tmp_path / file).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(broken)) != ast.dump(
        ast.parse((ROOT / file).read_text(encoding="utf-8"))
    )
    assert all((ROOT / each).is_file() for each in mutant.tests)


def test_a_stale_mutant_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "src" / "fadecount").mkdir(parents=True)
    (tmp_path / "src" / "fadecount" / "file.py").write_text("one\none\n", encoding="utf-8")
    for text in ("one", "two"):
        with pytest.raises(ValueError, match="must occur once"):
            Mutant("stale", "file.py", text, "", ()).apply(tmp_path)


def test_mutants_have_names_of_their_own() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) >= 15
