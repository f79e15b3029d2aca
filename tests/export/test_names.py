"""Names of primitives in files."""

import pkgutil
from importlib import import_module

import functad
from functad.export.names import name_of_primitive, primitive_of
from functad.primitives.entry import INTERNAL


def test_every_primitive_of_functad_is_found_by_its_name() -> None:
    for module in pkgutil.walk_packages(functad.__path__, "functad."):
        if module.name.startswith(("functad.primitives.", "functad.transforms.", "functad.rules.", "functad.scipy.")):
            import_module(module.name)
    names = [name_of_primitive(primitive) for primitive in INTERNAL]
    for primitive, name in zip(INTERNAL, names, strict=True):
        assert name is not None
        assert primitive_of(name, len(primitive.names)) is primitive, name
        assert names.count(name) == 1 or primitive.name == "einsum", name
