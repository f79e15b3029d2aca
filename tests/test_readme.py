"""The README: its commands, links and table of functions."""

import importlib.util
import re
from pathlib import Path

import functad

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def test_set_up_is_two_commands():
    commands = re.findall(r"```console\n(.*?)\n```", README.read_text(), re.DOTALL)
    assert commands == ["pip install -e '.[examples]' && python -m functad", "pip install -e '.[test]' && pytest"]


def test_benchmark_table_can_be_filled_in():
    text = README.read_text()
    assert text.count("<!-- benchmarks:start -->") == text.count("<!-- benchmarks:end -->") == 1


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", README.read_text()):
        assert (ROOT / target).exists(), target


def test_every_public_name_is_in_the_table():
    table = re.search(r"^\| function \| gives \|\n(.*?)\n\n", README.read_text(), re.DOTALL | re.MULTILINE)[1]
    named = set(re.findall(r"`([\w.]+)`", table))
    assert set(functad.__all__) <= named
    for name in re.findall(r"`(?:functad\.)?(\w+)`", "\n".join(line.split(" | ")[0] for line in table.splitlines())):
        assert hasattr(functad, name) or importlib.util.find_spec(f"functad.{name}"), name
