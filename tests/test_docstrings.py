"""What public names say of themselves: purpose, every parameter, what is returned, and an example."""

import importlib
import inspect
import re
from enum import Enum
from functools import cached_property

import pytest

# Not `functad.numpy`, which documents itself, and not `functad.errors` and `functad.compat`: the errors have their page, with
# cause and cure, and the names of TensorFlow theirs.
MODULES = ("functad", "functad.nn", "functad.optimize", "functad.optimizers", "functad.testing")
ELSEWHERE = {"functad": ("map",)}  # public, and not in `__all__`, where it would shadow Python's
# What public functions return, and users therefore hold.
RETURNED = (
    "functad.checkup.doctor.Checkup",
    "functad.checkup.point.Finding",
    "functad.profiling.profile.Profile",
    "functad.profiling.profile.Row",
    "functad.profiling.profile.Total",
    "functad.rules.custom.CustomFunction",
    "functad.diagnostics.explain.Explanation",
    "functad.diagnostics.explain.Finding",
    "functad.transforms.linear.LinearFunction",
    "functad.rules.register.RegisteredFunction",
    "functad.sparse.coloring.Coloring",
    "functad.sparse.pattern.Coordinates",
    "functad.trees.Structure",
)
SECTION = re.compile(r"^(Args|Attributes|Example|Raises|Returns|Yields):$", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.MULTILINE)


# Public by their names alone: what the tape, the Variables and the recorder ask of each other. Their sentence is enough.
BETWEEN_MODULES = {
    f"functad.{name}"
    for name in (
        "ForwardAccumulator.follow",
        "ForwardAccumulator.wants",
        "GradientTape.pull",
        "GradientTape.renumber",
        "GradientTape.run",
        "GradientTape.slots_of",
        "GradientTape.wants",
        "Variable.freeze",
        "graph.wants",
    )
}


def public():
    """Yield each public name once, with what it stands for."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in (*module.__all__, *ELSEWHERE.get(module_name, ())):
            value = getattr(module, name)
            is_error = inspect.isclass(value) and issubclass(value, Exception)
            if not inspect.ismodule(value) and not is_error:
                yield f"{module_name}.{name}", value


def returned():
    """Yield the classes of what public functions return."""
    for path in RETURNED:
        module, _, name = path.rpartition(".")
        yield path, getattr(importlib.import_module(module), name)


PUBLIC = {**dict(public()), **dict(returned())}
FUNCTIONS = {path: value for path, value in PUBLIC.items() if inspect.isfunction(value)}
CLASSES = {path: value for path, value in PUBLIC.items() if inspect.isclass(value)}


def methods():
    """Yield the public methods and properties that classes define themselves."""
    for path, cls in CLASSES.items():
        for name, value in vars(cls).items():
            value = getattr(cls, name) if isinstance(value, (classmethod, staticmethod)) else value
            if (
                not name.startswith("_")
                and f"{path}.{name}" not in BETWEEN_MODULES
                and (inspect.isroutine(value) or isinstance(value, PROPERTIES))
            ):
                yield f"{path}.{name}", value


PROPERTIES = (property, cached_property)
METHODS = dict(methods())


def sections(doc):
    """Return the text before all sections, and that of each."""
    first, *rest = SECTION.split(doc)
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def entries(text):
    """Return the names that a section says something of."""
    return {name.strip("*") for match in ENTRY.findall(text) for name in match.split(", ")}


def parameters(value):
    """Return the names of the parameters that a caller gives."""
    if getattr(value, "_is_protocol", False):
        return []
    names = [name for name in inspect.signature(value).parameters if not name.startswith("_")]
    bound = ("self",) if not inspect.isclass(value) and "." in value.__qualname__ else ()
    return [name for name in names if name not in bound]


def lacks(value, *, needs_example):
    """Return what the documentation of a function lacks."""
    doc = inspect.getdoc(value) or ""
    found = sections(doc)
    given = entries(found.get("Args", ""))
    lacking = [f"Args: {name}" for name in parameters(value) if name not in given]
    lacking += [f"Args: {name}, which is no parameter" for name in given - set(parameters(value))]
    returns = inspect.signature(value).return_annotation not in (None, "None", inspect.Signature.empty)
    if returns and not {"Returns", "Yields"} & found.keys():
        lacking.append("Returns")
    if needs_example and ">>>" not in found.get("Example", ""):
        lacking.append("Example")
    return lacking + purpose(found[""])


def purpose(text):
    """Return what is wrong with the first sentence."""
    first = text.partition("\n\n")[0].strip()
    return [] if re.match(r"[A-Z`].*[.:`]$", first, re.DOTALL) else [f"purpose: {first!r}"]


def test_there_is_something_to_look_at():
    kinds = {path for path in PUBLIC if path not in {**FUNCTIONS, **CLASSES}}
    assert kinds == {"functad.optimizers.Schedule"}, "an alias of types alone is neither function nor class"
    assert len(FUNCTIONS) > 100
    assert len(CLASSES) > 15
    assert len(METHODS) > 90


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions(path):
    assert lacks(FUNCTIONS[path], needs_example=True) == []


@pytest.mark.parametrize("path", CLASSES)
def test_classes(path):
    cls = CLASSES[path]
    assert "__doc__" in vars(cls)
    found = sections(inspect.getdoc(cls) or "")
    own = entries(found.get("Args", "")) | entries(found.get("Attributes", ""))
    if path not in RETURNED and not issubclass(cls, Enum):  # those are made by functions, an Enum by Python
        assert [name for name in parameters(cls) if name not in own] == []
    # Nobody makes the state of a transformation, nor the class that only says what a variable is asked for.
    assert ">>>" in found.get("Example", "") or re.search(r"\.optimizers\.(\w+State|VariableLike)$", path)
    assert purpose(found[""]) == []


@pytest.mark.parametrize("path", METHODS)
def test_methods(path):
    method = METHODS[path]
    if isinstance(method, PROPERTIES):
        assert purpose(sections(inspect.getdoc(method) or "")[""]) == []
        return
    lacking = lacks(method, needs_example=False)
    if not parameters(method) and re.match("Return|Say", inspect.getdoc(method) or ""):
        lacking = [what for what in lacking if what != "Returns"]  # the sentence says it
    assert lacking == []
