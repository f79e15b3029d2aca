"""The page `notebooks/coverage.md`, made from the table of coverage: `python -m tests.primitives.coverage_page`."""

from pathlib import Path

import numpy as np

import functad

PAGE = Path(__file__).parents[2] / "notebooks" / "coverage.md"


def page() -> str:
    """Return the text of the page."""
    table = functad.coverage()
    found = type(table)([row for row in table if row.module.startswith("numpy")])
    version = ".".join(np.__version__.split(".")[:2])
    summary = ", ".join(f"{count} {status}" for status, count in found.counts().items())
    return _INTRODUCTION.format(version=version, number=len(found), summary=summary) + "".join(
        f"\n## {module}\n\n{found.filter(module=module).markdown()}\n" for module in dict.fromkeys(row.module for row in found)
    )


_INTRODUCTION = """# Coverage of NumPy

The table lists {number} functions of NumPy {version}, {summary}: all functions that dispatch on their arguments, and a few
more. `functad.coverage()` shows the same table for the installed version of NumPy.

This page is generated, and a test compares it with the entries. This command writes the page again:

```console
python -m tests.primitives.coverage_page
```

- **status**: a *primitive* has its own derivative rules. A *composite* is written in terms of primitives. A *constant* has a
  zero derivative wherever the derivative exists. A *refused* function raises an error with the reason and the fix.
- **reverse**: the source of the pullback. It is a *rule*, the *body* of a composite, or *zero* for a constant.
- **forward**: the source of the tangent. It is a *rule*, the *same* rule as in reverse mode, the function *itself* if it is
  linear in an argument, the *transposed* pullback, or the *body* of a composite.
- **batch**: the method of `vmap`. The function *broadcasts*, has a batching *rule*, is computed by the *body* of a composite,
  or depends only on the *shape* of one example. *-* means that the function needs one value, and a batch has several.
- **order**: the highest order of derivatives that the generated tests compare with numerical ones, in both modes and mixed
  modes.
- **jit**: the code of the backend `llvm`. *native* means a part of a native loop, for real numbers and common arguments.
  *NumPy* means a call of NumPy between native loops.
- **xla**: the code of the backend `xla`. *XLA* means operations of XLA, for common arguments. *NumPy* means a call on the
  host.
"""


if __name__ == "__main__":
    PAGE.write_text(page())
