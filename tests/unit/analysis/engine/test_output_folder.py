"""Whose an output folder is, and that nothing in a folder of others is touched."""

import pytest

from mpbroker.analysis.engine.running import output_folder
from mpbroker.analysis.engine.running.output_folder import LAB, STUDY, OutInUse


def _content(place):
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_new_empty_and_own_folders_are_taken(tmp_path):
    for maker in (STUDY, LAB):
        out = tmp_path / maker.replace(" ", "-")
        output_folder.require_own(out, maker)
        assert not out.exists()
        output_folder.claim(out, maker)
        assert output_folder.made_by(out) == maker
        output_folder.claim(out, maker)
    (tmp_path / "empty").mkdir()
    output_folder.claim(tmp_path / "empty", STUDY)


@pytest.mark.parametrize("meta", [None, "{", "[]", '{"scenario": "steady"}', '{"made_by": 7}'])
def test_a_folder_of_others_is_refused_and_left_as_it_is(tmp_path, meta):
    (tmp_path / "precious.txt").write_text("mine")
    if meta is not None:
        (tmp_path / "meta.json").write_text(meta)
    before = _content(tmp_path)
    for maker in (STUDY, LAB):
        with pytest.raises(
            OutInUse, match=r"is not empty and .* did not make it; name a new folder with --out"
        ) as said:
            output_folder.claim(tmp_path, maker)
        assert said.value.exit_code == 2
    assert _content(tmp_path) == before


@pytest.mark.parametrize(("owner", "other"), [(STUDY, LAB), (LAB, STUDY)])
def test_the_two_commands_do_not_write_into_each_others_folders(tmp_path, owner, other):
    output_folder.claim(tmp_path, owner)
    with pytest.raises(OutInUse, match=f"holds the output of `{owner}`; name another folder with --out"):
        output_folder.require_own(tmp_path, other)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutInUse, match="is not a folder"):
        output_folder.require_own(tmp_path / "file", STUDY)


def test_only_the_tables_of_the_run_before_are_deleted(tmp_path):
    output_folder.claim(tmp_path, STUDY)
    (tmp_path / "meta.json").write_text(
        '{"made_by": "mpbroker trace study", "studies": {"tail": {"tables": {"a": 1}}}}'
    )
    (tmp_path / "tables").mkdir()
    for name in ("tail.a.csv", "tail.a.parquet", "tail.mine.csv", "notes.txt"):
        (tmp_path / "tables" / name).write_text("")
    output_folder.clear_tables(tmp_path)
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["notes.txt", "tail.mine.csv"]
