"""Imports go downwards only; layer-5 siblings never meet; C is reached through few doors; only one file forks."""

import ast

from tests.tidy.layers import FORK_HOME, LAYERS, NATIVE_USERS
from tests.tidy.source_tree import ROOT, imports, modules, package_of, tree


def test_every_package_has_a_layer():
    unknown = {package_of(module) for module in modules()} - set(LAYERS) - {""}
    assert not unknown, f"add these packages to tests/tidy/layers.py, with a reason in docs/architecture.md: {unknown}"


def _crossings():
    for module, path in modules().items():
        own = package_of(module)
        for imported in imports(path):
            other = package_of(imported)
            if own and other and other != own and other != "_native" and other in LAYERS:
                yield module, own, imported, other


def test_imports_go_downwards():
    wrong = [f"{module} imports {imported}" for module, own, imported, other in _crossings()
             if LAYERS[other] >= LAYERS[own]]
    assert not wrong, "\n".join(wrong)


def test_native_core_is_imported_through_few_doors():
    wrong = [module for module, path in modules().items()
             if any(name.startswith("mpbroker._native") for name in imports(path))
             and package_of(module) not in NATIVE_USERS]
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
        calls = {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}
        if calls & {"os.fork", "os.forkpty", "multiprocessing.Process"} and str(path.relative_to(ROOT)) != FORK_HOME:
            wrong.append(str(path))
    assert not wrong, wrong


def test_core_c_files_know_nothing_of_python():
    wrong = [path.name for path in (ROOT / "native").glob("*.[ch]")
             if not path.name.startswith(("py_", "module.")) and "Python.h" in path.read_text()]
    assert not wrong, wrong
