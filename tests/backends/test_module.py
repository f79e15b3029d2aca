"""Machine code in memory: who owns it, many threads at once, and what is said where llvmlite is missing."""

import ctypes
import gc
import sys
import threading

import numpy as np
import pytest

import functad
from functad.backends.llvm import module
from functad.backends.native import disk

TEXT = """
define void @{name}(ptr %out) {{
  store double {number}, ptr %out
  ret void
}}
"""


def test_without_llvmlite_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(functad.errors.MissingPackageError, match=r"The backend `llvm`, at .* pip install 'functad\[jit\]'"):
        module.binding()


class TestCompiled:
    """What needs llvmlite."""

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")

    def load(self, number):
        machine = module.host()
        return machine.loaded(machine.compiled(TEXT.format(name="answer", number=number)), ["answer"])

    def call(self, function):
        result = np.zeros(1)
        function(result.ctypes.data)
        return result[0]

    def test_a_function_keeps_its_code(self):
        function = self.load(42.0).function("answer", ctypes.c_void_p)
        gc.collect()
        assert self.call(function) == 42.0

    def test_libraries_do_not_meet(self):
        first, second = (self.load(number).function("answer", ctypes.c_void_p) for number in (1.0, 2.0))
        assert [self.call(first), self.call(second)] == [1.0, 2.0]
        del first
        gc.collect()
        assert self.call(second) == 2.0

    def test_threads_compile_at_once(self):
        results = {}

        def work(number):
            results[number] = self.call(self.load(float(number)).function("answer", ctypes.c_void_p))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {number: number for number in range(8)}

    def test_wrong_text_is_refused_with_its_place(self):
        with pytest.raises(RuntimeError, match="expected"):
            module.host().compiled("define nonsense")

    def test_code_may_be_kept_and_loaded_later(self):
        code = module.host().compiled(TEXT.format(name="answer", number=7.0))
        assert isinstance(code, bytes)
        assert self.call(module.host().loaded(code, ["answer"]).function("answer", ctypes.c_void_p)) == 7.0

    def test_code_that_is_not_optimised_computes_the_same_and_has_a_name_of_its_own_on_disk(self):
        plain, text = module.Machine(level=0), TEXT.format(name="answer", number=7.0)
        library = plain.loaded(plain.compiled(text), ["answer"])
        assert self.call(library.function("answer", ctypes.c_void_p)) == 7.0
        assert disk.key_of(plain, text) != disk.key_of(module.host(), text)
