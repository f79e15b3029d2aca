"""The recipe for conda passes the parser of the tool that builds it, and says the same as pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

rattler_build = pytest.importorskip("rattler_build", reason="py-rattler-build is in the extra `dev`, and CI runs this with it")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def recipe():
    """The recipe with its variables put in; a field that conda does not know raises here."""
    [variant] = rattler_build.Stage0Recipe.from_file(str(ROOT / ".ci/conda/recipe.yaml")).render(rattler_build.VariantConfig())
    return variant.recipe.to_dict()


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def plain(requirement):
    """Return a requirement without spaces and commas' order, as conda and pip write it alike."""
    name, bounds = re.fullmatch(r"([\w.-]+)\s*(.*)", requirement).groups()
    return name, frozenset(part.strip() for part in bounds.split(",") if part.strip())


def test_it_is_the_package_of_pyproject(recipe, project):
    about, own = recipe["about"], project["project"]
    assert (recipe["package"]["name"], recipe["package"]["version"]) == (own["name"], own["version"])
    assert (about["license"], about["license_file"], about["summary"]) == (
        own["license"],
        own["license-files"],
        own["description"],
    )


def test_it_requires_what_pyproject_requires(recipe, project):
    own = project["project"]
    run = set(map(plain, recipe["requirements"]["run"]))
    assert run == {plain(f"python {own['requires-python']}"), *map(plain, own["dependencies"])}
    assert set(map(plain, project["build-system"]["requires"])) <= set(map(plain, recipe["requirements"]["host"]))


def test_it_is_for_all_platforms_and_lies_beside_the_source(recipe):
    assert recipe["build"]["noarch"] == "python"
    assert (ROOT / ".ci/conda" / recipe["source"][0]["path"] / "pyproject.toml").exists()
