"""Imports go downwards only; layer-5 siblings never meet; C is reached through few doors; only one file forks."""

import ast
import re

from tests.tidy.layers import (
    ANALYSIS,
    ANALYSIS_CLIENTS,
    ANALYSIS_READS,
    ANALYSIS_ROOMS,
    ANALYSIS_USERS,
    CLIENT_PACKAGES,
    EXTRAS,
    FORK_HOME,
    LAYERS,
    NATIVE_ROOMS,
    NATIVE_USERS,
)
from tests.tidy.source_tree import ROOT, imports, last_name, modules, nodes, package_of, tree


def test_every_package_has_a_layer():
    unknown = {package_of(module) for module in modules()} - set(LAYERS) - {ANALYSIS, ""}
    assert not unknown, f"add these packages to tests/tidy/layers.py, with a reason in docs/architecture.md: {unknown}"


def test_every_layer_has_a_package():
    """The picture in docs/architecture.md and the table here name what is there, each package once."""
    section = (ROOT / "docs/architecture.md").read_text().partition("\n## 8. Layers\n")[2]
    rows = re.findall(r"^ (\d)  (\w+(?: {3}\w+)*)", section.partition("\n## ")[0], re.MULTILINE)
    assert {name: int(layer) for layer, names in rows for name in names.split()} | {"__main__": 8} == LAYERS
    assert set(LAYERS) == {package_of(module) for module in modules()} - {ANALYSIS, ""}


def _crossings():
    for module, path in modules().items():
        own = package_of(module)
        for imported in imports(path):
            other = package_of(imported)
            if own and other and other != own and other != "_native" and {own, other} <= set(LAYERS):
                yield module, own, imported, other


def test_imports_go_downwards():
    wrong = [
        f"{module} imports {imported}" for module, own, imported, other in _crossings() if LAYERS[other] >= LAYERS[own]
    ]
    assert not wrong, "\n".join(wrong)


def _room_of(module: str) -> str:
    """`mpbroker.analysis.lab.scenario` → `lab`; empty for the package itself."""
    return [*module.split("."), ""][2]


def test_every_room_of_the_analysis_is_known():
    assert {_room_of(module) for module in modules() if package_of(module) == ANALYSIS} == ANALYSIS_ROOMS | {""}


def _allowed_to_analysis(room: str, imported: str) -> bool:
    """`imported` may be a name inside an allowed module."""
    other = package_of(imported)
    if other == ANALYSIS or (room in ANALYSIS_CLIENTS and other in CLIENT_PACKAGES):
        return True
    return imported in ANALYSIS_READS or imported.rpartition(".")[0] in ANALYSIS_READS - {"mpbroker", "mpbroker.trace"}


def test_analysis_reads_files_and_is_a_client():
    wrong = [
        f"{module} imports {imported}"
        for module, path in modules().items()
        if package_of(module) == ANALYSIS
        for imported in imports(path)
        if imported != "mpbroker.__version__" and not _allowed_to_analysis(_room_of(module), imported)
    ]
    assert not wrong, "\n".join(wrong)


def test_only_commands_reach_the_analysis():
    wrong = [
        f"{module} imports {imported}"
        for module, path in modules().items()
        if package_of(module) not in {ANALYSIS} | ANALYSIS_USERS
        for imported in imports(path)
        if package_of(imported) == ANALYSIS
    ]
    assert not wrong, "\n".join(wrong)


def _third_party(path) -> set[str]:
    names = {alias.name for node in nodes(path) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.split(".")[0] for name in names}


def test_packages_of_extras_are_imported_by_the_analysis_only():
    wrong = [
        f"{module} imports {sorted(_third_party(path) & EXTRAS)}"
        for module, path in modules().items()
        if package_of(module) != ANALYSIS and _third_party(path) & EXTRAS
    ]
    assert not wrong, "\n".join(wrong)


def _top_level_imports(path) -> set[str]:
    module = ast.Module([node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    return {node.module or "" for node in ast.walk(module) if isinstance(node, ast.ImportFrom)}


def test_commands_import_the_analysis_inside_functions():
    wrong = [
        f"{module} imports {name}"
        for module, path in modules().items()
        if package_of(module) in ANALYSIS_USERS
        for name in _top_level_imports(path)
        if package_of(name) == ANALYSIS
    ]
    assert not wrong, "\n".join(wrong)


def test_native_core_is_imported_through_few_doors():
    wrong = [
        module
        for module, path in modules().items()
        if any(name.startswith("mpbroker._native") for name in imports(path)) and package_of(module) not in NATIVE_USERS
    ]
    assert not wrong, wrong


def test_no_import_cycles():
    edges = {module: {name for name in imports(path) if name in modules()} for module, path in modules().items()}
    state: dict[str, int] = {}

    def visit(module: str, trail: list[str]) -> None:
        if state.get(module) == 2:
            return
        assert state.get(module) != 1, "cycle: " + " -> ".join([*trail, module])
        state[module] = 1
        for imported in sorted(edges[module] - {module}):
            visit(imported, [*trail, module])
        state[module] = 2

    for module in edges:
        visit(module, [])


def test_only_launch_forks():
    wrong = []
    for path in modules().values():
        called = [node.func for node in nodes(path) if isinstance(node, ast.Call)]
        calls = {ast.unparse(each) for each in called if last_name(each) in ("fork", "forkpty", "Process")}
        if calls & {"os.fork", "os.forkpty", "multiprocessing.Process"} and str(path.relative_to(ROOT)) != FORK_HOME:
            wrong.append(str(path))
    assert not wrong, wrong


def test_core_c_files_know_nothing_of_python():
    wrong = [
        str(path)
        for room in NATIVE_ROOMS
        if room != "python"
        for path in (ROOT / "native" / room).glob("*.[ch]")
        if "Python.h" in path.read_text()
    ]
    assert not wrong, wrong


def test_c_files_stand_in_a_room_and_include_downwards():
    folders = {path.name for path in (ROOT / "native").iterdir() if path.is_dir()} - {"tests", "build"}
    assert folders == set(NATIVE_ROOMS) and not list((ROOT / "native").glob("*.[ch]"))
    wrong = [
        f"{room}/{path.name} includes {header}"
        for room, below in NATIVE_ROOMS.items()
        for path in sorted((ROOT / "native" / room).iterdir())
        for header in re.findall(r'#include "([^"]+)"', path.read_text())
        if header.split("/")[0] not in below | {room}
    ]
    assert not wrong, "\n".join(wrong)
