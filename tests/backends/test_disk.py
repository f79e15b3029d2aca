"""The directory of machine code: files under another name, FIFOs, relative paths, and the rights of the directory."""

import gc
import os

import numpy as np
import pytest

import functad
from functad.backends.native import disk
from functad.errors import InputError


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


@pytest.fixture
def unset(monkeypatch):
    """Begin as if no directory had been named."""
    for name, value in (("_STATE", {}), ("_NAMED", {}), ("_REPORTED", set())):
        monkeypatch.setattr(disk, name, value)


needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this platform has no owners of files")


def owned_by_another_user(monkeypatch, path):
    """Make a directory look as if another user owned it."""
    found = type(path).stat

    def stat(self, **options):
        result = list(found(self, **options))
        result[4] = os.geteuid() + 1
        return os.stat_result(result)

    monkeypatch.setattr(type(path), "stat", stat)


@needs_owners
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path, unset, mode):
    path = tmp_path / "cache"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(InputError, match=r"other users may write to .*chmod go-w"):
        functad.compilation_cache(path)
    assert disk._STATE == {}
    path.chmod(mode & ~0o022)
    functad.compilation_cache(path)
    assert disk._directory() == path


@needs_owners
def test_a_directory_of_another_user_is_refused(tmp_path, unset, monkeypatch):
    owned_by_another_user(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="belongs to another user"):
        functad.compilation_cache(tmp_path)
    assert disk._STATE == {}


@needs_owners
def test_an_unsafe_directory_in_the_environment_gives_one_warning_and_is_not_used(tmp_path, unset, monkeypatch):
    pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    tmp_path.chmod(0o777)
    monkeypatch.setenv("FUNCTAD_COMPILATION_CACHE", str(tmp_path))
    f = functad.jit(lambda x: x * 2.5 + 1.0, backend="llvm")
    with pytest.warns(RuntimeWarning, match=r"test_disk\.py.*other users may write to"):
        f(1.0)
    f(np.ones(3))
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o700)
    f(np.ones(4))
    assert len(list(tmp_path.iterdir())) == 2  # the machine code and the program


@needs_owners
def test_a_directory_that_others_may_write_to_later_is_no_longer_used(tmp_path, unset):
    functad.compilation_cache(tmp_path)
    assert disk._directory() == tmp_path
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="other users may write"):
        assert disk._directory() is None


def test_a_relative_path_in_the_environment_is_resolved_once(tmp_path, unset, monkeypatch):
    monkeypatch.setenv("FUNCTAD_COMPILATION_CACHE", "cache")
    monkeypatch.chdir(tmp_path)
    assert disk._directory() == tmp_path / "cache"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert disk._directory() == tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch):
    """Return a list that grows with each module that LLVM compiles; begin without loaded libraries."""
    module = pytest.importorskip("functad.backends.llvm.module", reason="the llvm backend needs llvmlite, of the extra `jit`")
    pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    found, compiled = [], module.Machine.compiled

    def counted(self, text):
        found.append(text)
        return compiled(self, text)

    monkeypatch.setattr(module.Machine, "compiled", counted)
    disk._LIBRARIES.clear()
    return found


def test_equal_functions_are_compiled_once(compilations):
    x = np.linspace(0.1, 1.0, 50)
    for factor in (2.5, 2.5, 3.5):

        def f(x, factor=factor):
            y = np.sqrt(x)
            return np.tanh(x) * factor + y, np.sum(y)

        for found, expected in zip(functad.jit(f, backend="llvm")(x), f(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert len(compilations) == 2


def test_code_is_loaded_again_after_other_functions_were(compilations):
    x = np.ones(5)
    for number in [*range(3), *range(3)]:
        assert functad.jit(lambda x, number=number: x * (number + 7.25), backend="llvm")(x)[0] == number + 7.25
    assert len(compilations) == 3
    functad.clear_cache()
    gc.collect()
    assert not disk._RECENT
    functad.jit(lambda x: x * 7.25, backend="llvm")(x)
    assert len(compilations) == 4
