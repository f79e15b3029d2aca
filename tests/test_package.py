"""The package as a whole: what it imports, how fast, in which direction, and what its public names promise."""

import ast
import collections
import functools
import graphlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import functad

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "functad"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# The order of the design: a module imports from its own layer and from those before it.
LAYERS = (
    "functad.places",
    "functad.immutable",
    "functad.errors",
    "functad.process",
    "functad.display",
    "functad.trees",
    "functad.expressions.spec",
    "functad.primitives",
    "functad.expressions",
    "functad.tracing",
    "functad.debug",
    "functad.math",
    "functad.adoption",
    "functad.numpy",
    "functad.transforms.row_slices",
    "functad.transforms.zero_wins",
    "functad.transforms.reverse",
    "functad.transforms.forward",
    "functad.transforms.transform",
    "functad.transforms.boundary",
    "functad.diagnostics",
    "functad.transforms",
    "functad.drawing",
    "functad.rules",
    "functad.control",
    "functad.implicit",
    "functad.sparse",
    "functad.eager.containers",
    "functad.eager.shown",
    "functad.eager.variable",
    "functad.eager.module",
    "functad.eager.save",
    "functad.eager.tape.diagnostics",
    "functad.eager.tape.recorder",
    "functad.eager.tape",
    "functad.eager",
    "functad.loops",
    "functad.emitters",
    "functad.backends",
    "functad.compilation",
    "functad.chunks",
    "functad.compilation.jit",
    "functad.profiling",
    "functad.export",
    "functad.bridges",
    "functad.optimizers",
    "functad.optimize",
    "functad.scipy",
    "functad.nn",
    "functad.testing.numerical",
    "functad.checkup",
    "functad",
    "functad.compat",
    "functad.testing",
    "functad.tour",
    "functad.__main__",
)
LONGEST_FILE = 700
LARGEST_FOLDER = 24
IMPORTED_MODULES = 72
IMPORT_CALLS = 38_000
VAGUE = {"core", "utils", "util", "misc", "helpers", "helper", "common"}


def run(code: str, **environment: str) -> str:
    """Run code in a fresh interpreter that sees the package, and return what it prints."""
    command = [sys.executable, "-c", code]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | environment
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=variables).stdout.strip()


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> int:
    """Return the position of a module in `LAYERS`: that of the longest name that it is or lies in."""
    fitting = [name for name in LAYERS if module == name or (name != "functad" and module.startswith(f"{name}."))]
    assert fitting, f"{module} has no layer: enter it in LAYERS"
    return LAYERS.index(max(fitting, key=len))


@functools.cache
def syntax(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which several tests look at."""
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Return line and module of each import of the project itself, those inside functions included."""
    found = []
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            module = node.module or ""
            for alias in node.names:
                deeper = ROOT.joinpath(*module.split("."), alias.name)
                is_module = deeper.is_dir() or deeper.with_suffix(".py").exists()
                found.append((node.lineno, f"{module}.{alias.name}" if is_module else module))
    return [(line, name) for line, name in found if name.split(".")[0] == "functad"]


# What is imported


def test_import_brings_numpy_and_typing_extensions_and_nothing_else():
    code = """
import sys
before = set(sys.modules)
import functad
roots = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
# A package built into NumPy, or a module made at run time, has no file of its own.
print(*sorted(root for root in roots if getattr(sys.modules.get(root), "__file__", None)))
"""
    assert set(run(code).split()) <= {"functad", "numpy", "typing_extensions"}


def test_import_changes_nothing_in_the_process():
    code = """
import gc, locale, os, signal, sys, threading, warnings
import numpy as np

def state():
    return {
        "filters": list(warnings.filters), "errors": np.geterr(),
        "error call": np.geterrcall(), "printing": np.get_printoptions(),
        "random": str(np.random.get_state()), "threads": threading.enumerate(), "environment": dict(os.environ),
        "signals": [signal.getsignal(number) for number in signal.valid_signals()], "locale": locale.setlocale(locale.LC_ALL),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.callbacks), "path": list(sys.path), "folder": os.getcwd(),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile()),
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.meta_path[:], threading.excepthook),
        "files": os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else None,
    }

before = state()
import functad
functad.GradientTape, functad.save, functad.vmap, functad.Variable, functad.optimizers.Adam
functad.grad(lambda x: x * x)(3.0)
after = state()
print(*[name for name in before if before[name] != after[name]])
"""
    assert run(code) == ""


def test_import_loads_few_modules_and_calls_few_functions():
    """The time of an import follows from these two numbers, and does not depend on the load of the machine."""
    code = """
import sys
import numpy, typing_extensions

def count(frame, event, arg):
    global calls
    calls += event in ("call", "c_call")

before, calls = set(sys.modules), 0
sys.setprofile(count)
import functad
sys.setprofile(None)
print(calls, *sorted(set(sys.modules) - before))
"""
    run(code)  # compiles to byte code, so that the next run finds it
    calls, *modules = run(code).split()
    assert len([name for name in modules if name.partition(".")[0] == "functad"]) <= IMPORTED_MODULES
    assert int(calls) <= IMPORT_CALLS


# Where things are


@pytest.mark.parametrize("path", SOURCES, ids=dotted)
def test_imports_point_one_way(path):
    own = layer(dotted(path))
    wrong = [f"line {line}: {LAYERS[own]} imports {name}" for line, name in imports(path) if layer(name) > own]
    assert not wrong


def test_no_modules_import_one_another_in_a_circle():
    """Imports for types alone and those inside functions count too."""
    known = set(map(dotted, SOURCES))
    graph = {dotted(path): {name for _, name in imports(path) if name in known} - {dotted(path), "functad"} for path in SOURCES}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_folders_are_not_crowded():
    counts = collections.Counter(path.parent for path in SOURCES)
    assert [folder for folder, count in counts.items() if count > LARGEST_FOLDER] == []


@pytest.mark.parametrize("path", SOURCES, ids=dotted)
def test_docstrings_say_what_is_done(path):
    """`Return what ...` leaves the thing without a name."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    vague = [
        node.name
        for node in ast.walk(syntax(path))
        if isinstance(node, kinds) and (ast.get_docstring(node) or "").startswith("Return what")
    ]
    assert not vague


def test_backends_are_imported_by_jit_alone():
    allowed = {"functad.compilation", "functad", "functad.chunks.program", "functad.chunks.tasks"}  # these are jit's, of chunks
    for path in SOURCES:
        module = dotted(path)
        if module not in allowed and not module.startswith(("functad.backends", "functad.compilation.")):
            assert not [name for _, name in imports(path) if name.startswith("functad.backends")], module


def test_the_tour_uses_public_names_only():
    for path in SOURCES:
        if dotted(path).startswith(("functad.tour", "functad.__main__")):
            assert all(name == "functad" or name.startswith("functad.tour") for _, name in imports(path)), path


@pytest.mark.parametrize("path", SOURCES, ids=dotted)
def test_file_has_a_telling_name_and_stays_short(path):
    assert not VAGUE & {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", SOURCES, ids=dotted)
def test_module_says_what_it_is(path):
    tree = syntax(path)
    assert ast.get_docstring(tree) or not tree.body


def test_top_level_is_fixed():
    expected = {"functad", "tests", "notebooks"}
    caches = {"build", "dist"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))}
    assert folders - caches - {name for name in folders if name.endswith(".egg-info")} <= expected | {"shared"}


def test_no_absolute_paths():
    machine_path = re.compile(r"(?<![\w.])/(?:home|root|Users|tmp|work|opt|usr|mnt)/\w|\b[A-Z]:\\\w")
    texts = [
        *SOURCES,
        *(ROOT / "tests").rglob("*.py"),
        *ROOT.glob("*.md"),
        *ROOT.glob("*.toml"),
        *filter(Path.is_file, ROOT.glob(".ci/**/*")),
    ]
    for path in texts:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            excused = path == Path(__file__) or line.startswith("#!")
            assert excused or not machine_path.search(line), f"{path}:{number}: {line}"


# What tests import

PUBLIC_MODULES = re.compile(
    r"functad(\.(errors|math|nn|numpy|optimize|optimizers|testing(\.(fuzz|strategies))?|compat(\.tfe?(\.\w+)*)?|scipy"
    r"(\.(fft|integrate|interpolate|linalg|ndimage|optimize|signal|sparse|spatial|special|stats))?))?"
)
BESIDE_THE_MODULE = {
    "loops/accuracy.py": "measures the error of single elementary functions, and writes the table of a page",
    "compat/test_functions.py": "asks the table of names which functions no row tests",
    "compat/test_names.py": "reads the table of names, a part of functad.compat.tensors",
    "compilation/conftest.py": "checks the lists of all programs after each pass",
    "compilation/test_compiled_equals_eager.py": "builds the cases of the fuzzer by hand, to show that it finds differences",
    "compilation/test_coefficients.py": "tests the factors of linear scans, a part of functad.compilation.passes.speculate",
    "compilation/test_every_entry.py": "compiles the lists of all entries as one list, with chosen optimisation levels",
    "compilation/test_loops_of_no_steps.py": "compares results as the fuzzer does",
    "display/test_patterns.py": "reads the groups of a displayed colouring",
    "eager/test_active.py": "tests the active tapes, a part of functad.eager.variable",
    "loops/evaluate.py": "evaluates the nodes of the loop IR",
    "loops/test_evaluate.py": "compares evaluated nodes with the code of LLVM",
    "portability/test_array_api_standard.py": "tests replacements of functions that old versions of NumPy lack",
    "portability/test_dask_jit.py": "counts tasks, and lowers the size from which chunks are not gathered",
    "portability/test_poison.py": "makes a rule wrong, and has to clear the fast path of the operator",
    "primitives/test_memory_order.py": "compares the memory layout that a trace without values assumes",
    "primitives/test_plan.py": "tests plans, a part of functad.primitives.entry",
    "primitives/test_traits.py": "selects the primitives among all entries",
    "scipy/conftest.py": "compares the value of each formula with the value of SciPy",
    "test_forks.py": "looks at the locks and variables of several modules in a forked child",
    "test_foreign_trees.py": "forgets the classes that a test registers",
    "test_hostile_files.py": "changes the bytes of machine code on disk",
    "test_interrupted_tools.py": "interrupts single functions at every line",
    "test_interrupts.py": "looks at the context variables of these modules",
    "testing/test_random_programs.py": "asks the generator for its families and statements, and makes rules wrong",
    "transforms/test_checkpoint_sequence.py": "tests the schedules, a part of functad.rules.checkpoint",
    "transforms/test_cotangents.py": "limits the memory of batches of seeds, a part of functad.transforms.jacobian",
    "transforms/test_linearity.py": "tests the analysis of linearity, a part of functad.transforms.linear",
    "transforms/test_source_lines.py": "compares the places of equations",
}
"""Test files that import internal names and are not named after a module, with the reason."""


def names_of_pages() -> set[str]:
    """Return the dotted names that the code of a page imports: they are public too."""
    text = "".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "notebooks").glob("*.md")])
    found = re.findall(r"\bfrom (functad[\w.]*) import ([\w, ]+)", text)
    return {f"{module}.{name.strip()}" for module, names in found for name in names.split(",")}


def internal_imports(path: Path, public: set[str]) -> set[str]:
    """Return the internal modules of functad that a test file imports, or imports a name from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if not PUBLIC_MODULES.fullmatch(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in [alias.name for alias in node.names if f"{node.module}.{alias.name}" not in public]:
                deeper = ROOT.joinpath(*node.module.split("."), name)
                is_module = deeper.is_dir() or deeper.with_suffix(".py").exists()
                inner = f"{node.module}.{name}" if is_module else node.module
                if name.startswith("_") or not PUBLIC_MODULES.fullmatch(inner):
                    found.add(inner)
    return {name for name in found if name.split(".")[0] == "functad"}


def is_named_after_a_module(path: Path, imported: set[str]) -> bool:
    """Return `True` for `test_digest.py` if `digest.py` is in the same folder of the package, or if the file imports it.

    A name of two parts, such as `test_sparse_patterns.py`, also means the module `sparse/patterns.py`.
    """
    for source in SOURCES:
        parts = [part.strip("_") for part in dotted(source).split(".")]
        if path.stem.removeprefix("test_") in (parts[-1], "_".join(parts[-2:])):
            near = parts[1] == path.parent.name or (len(parts) > 2 and parts[-2:] == path.stem.split("_")[1:])
            if near or any(f"{name}.".startswith(f"{dotted(source)}.") for name in imported):
                return True
    return False


def test_tests_of_features_import_public_names_only():
    """A file that is named after a module tests the module, and may import internal names. All others have a reason."""
    public = names_of_pages()
    users = {path: internal_imports(path, public) for path in (ROOT / "tests").rglob("*.py")}
    others = {
        str(path.relative_to(ROOT / "tests")): sorted(names)
        for path, names in users.items()
        if names and not is_named_after_a_module(path, names)
    }
    unknown = {path: names for path, names in others.items() if path not in BESIDE_THE_MODULE}
    assert not unknown, "import public names, or name the file after the module"
    assert not set(BESIDE_THE_MODULE) - set(others), "these need no entry any more"


# What is public


def test_public_names_are_those_listed():
    listed = set(functad.__all__)
    assert len(listed) == len(functad.__all__)
    assert all(hasattr(functad, name) for name in listed)  # which loads those that are loaded late
    present = {name for name in vars(functad) if not name.startswith("_")} - {"map"}  # listed, it would shadow Python's
    submodules = {name for name in present if inspect.ismodule(getattr(functad, name))}
    assert present - submodules == {name for name in listed if not name.startswith("_")} - submodules


def test_version_is_that_of_the_changelog():
    pyproject = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"$', pyproject, re.MULTILINE)[1]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert newest == version
    assert getattr(functad, "__version__", version) == version


def test_package_is_typed():
    assert (PACKAGE / "py.typed").exists()
