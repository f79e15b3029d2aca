"""The directory of machine code: files under another name, FIFOs, relative paths, and the rights of the directory."""

import os

import pytest

import functad
from functad.backends.native import disk


def test_a_file_under_the_name_of_another_is_ignored(tmp_path):
    disk._write(tmp_path / "a.bin", b"code")
    assert disk._read(tmp_path / "a.bin") == b"code"
    (tmp_path / "b.bin").write_bytes((tmp_path / "a.bin").read_bytes())
    assert disk._read(tmp_path / "b.bin") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no os.mkfifo")
def test_a_fifo_is_ignored_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "a.bin")
    assert disk._read(tmp_path / "a.bin") is None


def test_a_relative_path_is_resolved_once_and_the_directory_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_STATE", {})
    monkeypatch.chdir(tmp_path)
    functad.compilation_cache("cache")
    assert disk._directory() == tmp_path / "cache"
    assert os.name == "nt" or (tmp_path / "cache").stat().st_mode & 0o077 == 0
