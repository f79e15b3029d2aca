"""The README: its commands, links and length."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def test_set_up_is_two_commands():
    commands = re.findall(r"```console\n(.*?)\n```", README.read_text(), re.DOTALL)
    assert commands == ["pip install -e '.[examples]' && python -m functad", "pip install -e '.[test]' && pytest"]


def test_is_one_page():
    assert len(README.read_text().splitlines()) <= 120


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", README.read_text()):
        assert (ROOT / target).exists(), target
