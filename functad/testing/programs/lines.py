"""The lines of random programs that make new values, by family: calls for whatever shapes, up to rank 4, are at hand."""

from __future__ import annotations

import numpy as np

from functad.primitives.entry import ENTRIES
from functad.testing.programs.drafts import Draft, broadcasts, line
from functad.testing.programs.text import listed

# Elementwise


@line("elementwise")
def operator(d: Draft) -> str:
    """An operator, on two values that broadcast or on one and a constant."""
    a = d.operand()
    b = d.number() if d.choose(3) == 2 else d.operand(lambda value: broadcasts(value, d.space[a]))
    sign = d.one(["+", "*", "-", "/", "**", "%"])
    if sign == "%" and a == b:  # it jumps there
        sign = "+"
    if sign in "/%":
        b = d.within(b, 0.5, 3.0)
    if sign == "**":
        a = d.within(a, 0.3, 2.0)
    left, right = (a, b) if d.choose(2) or sign in "/%**" else (b, a)
    return f"{left} {sign} {right}"


@line("elementwise")
def many(d: Draft) -> str:
    """The same value many times over, so that cotangents are added up."""
    a = d.operand()
    return str(d.one([f"{a} * {a} + {a}", f"{a} * np.sin({a}) - 0.5 * {a}", f"-{a} + abs({a})", f"(2 - {a}) * {a} / 3"]))


# Reductions and scans


@line("reductions")
def reduction(d: Draft) -> str:
    """A reduction over any axes, as function or method."""
    a = d.array(0)
    name = d.one(["sum", "mean", "max", "prod", "min", "var", "std", "ptp"])
    ndim = np.ndim(d.space[a])
    keywords = f"axis={d.axes(ndim) if ndim else None}" + d.one(["", ", keepdims=True"])
    if name in ("sum", "prod", "max", "min", "mean") and d.choose(4) == 3:
        keywords += f", where={a} < 1.5" + ("" if name == "mean" else ", initial=1.0")
    elif name in ("var", "std"):
        keywords += d.one(["", ", ddof=0.5", ", correction=0"])
    if name != "ptp" and d.choose(2):
        return f"{a}.{name}({keywords})"
    return f"np.{name}({a}, {keywords})"


@line("reductions")
def norm(d: Draft) -> str:
    """A norm of vectors."""
    a = d.array()
    return f"np.linalg.norm({a}, {d.one(['None', '1', 'np.inf', '3', '-np.inf'])}, axis={d.axis(np.ndim(d.space[a]))})"


@line("reductions")
def ufunc_reduction(d: Draft) -> str:
    """A method of a ufunc."""
    a = d.array()
    ndim = np.ndim(d.space[a])
    name = d.one(["add", "multiply", "maximum", "minimum"])
    kind = d.one(["reduce", "accumulate", "outer"])
    if kind == "outer":
        return f"np.{d.one([name, 'subtract'])}.outer({a}, {d.operand()})"
    return f"np.{name}.{kind}({a}, axis={d.axis(ndim)})"


@line("reductions")
def quantile(d: Draft) -> str:
    """A median or quantile."""
    a = d.untied()
    axis = d.axis(np.ndim(d.space[a]))
    return str(d.one([f"np.median({a}, axis={axis})", f"np.quantile({a}, 0.3, axis={axis})", f"np.average({a}, axis={axis})"]))


@line("scans")
def scan(d: Draft) -> str:
    """A cumulative function or a difference."""
    a = d.array()
    axis = d.axis(np.ndim(d.space[a]))
    return str(d.one([f"np.{n}({a}, axis={axis})" for n in ("cumsum", "cumprod", "diff", "gradient", "unwrap", "nancumsum")]))


# Shapes


@line("shaping")
def reshaped(d: Draft) -> str:
    """A value in another shape."""
    a = d.array(0)
    size = np.size(d.space[a])
    first = d.one([n for n in range(1, size + 1) if size % n == 0])
    shape = d.one([(first, size // first), (-1,), (first, 1, -1), (1, size // first, 1, first)])
    order = d.one(["", ", order='F'"])
    return f"np.reshape({a}, {shape}{order})" if d.choose(2) else f"{a}.reshape({shape}{order})"


@line("shaping")
def transposed(d: Draft) -> str:
    """Axes in another order."""
    a = d.array(2)
    ndim = np.ndim(d.space[a])
    order = list(range(ndim))
    for i in range(ndim - 1, 0, -1):
        j = d.choose(i + 1)
        order[i], order[j] = order[j], order[i]
    return d.way(f"""
        {a}.T; np.transpose({a}, {tuple(order)}); np.swapaxes({a}, {d.axis(ndim)}, {d.axis(ndim)})
        np.moveaxis({a}, {d.axis(ndim)}, {d.axis(ndim)}); np.matrix_transpose({a})
    """)


@line("shaping")
def stretched(d: Draft) -> str:
    """Axes added, removed, broadcast or repeated."""
    a = d.array(0)
    ndim = np.ndim(d.space[a])
    ways = listed(f"""
        np.expand_dims({a}, 0); np.atleast_2d({a}); np.tile({a}, 2); np.squeeze({a}); np.ravel({a})
        np.broadcast_to({a}, {(2, *np.shape(d.space[a]))}); {a}.flatten(); np.repeat({a}, 2); {a} + np.zeros(2)[:, None]
    """)
    if ndim:
        axis = d.axis(ndim)
        ways += listed(f"""
            np.repeat({a}, 2, axis={axis}); np.flip({a}, {axis}); np.roll({a}, 1, axis={axis}); np.roll({a}, -2)
        """)
        ways += [f"np.pad({a}, 1, mode={mode!r})" for mode in ("constant", "edge", "wrap", "reflect")]
        ways += [f"np.tril({a})", f"np.triu({a}, 1)", f"np.delete({a}, 0, axis={axis})", f"np.insert({a}, 1, 0.5, axis={axis})"]
    return str(d.one(ways))


# Reading


@line("indexing")
def sliced(d: Draft) -> str:
    """Basic indexing."""
    a = d.array()
    value = d.space[a]
    parts = [
        d.one([str(d.choose(length)), ":", "::-1", "1:", ":-1", "::2", f"{d.choose(length)}:", "None", "-1"])
        for length in value.shape[: 1 + d.choose(value.ndim)]
    ]
    if d.choose(4) == 3:
        parts.insert(d.choose(len(parts) + 1), "...")
    return f"{a}[{', '.join(parts)}]"


@line("indexing")
def gathered(d: Draft) -> str:
    """Advanced indexing."""
    a = d.array()
    value = d.space[a]
    length = value.shape[0]
    picks = [d.choose(length) - d.choose(2) * length for _ in range(1 + d.choose(4))]
    axis = d.axis(value.ndim)
    along = value.shape[axis]
    ways = listed(f"""
        {a}[{picks}]; {a}[..., {[d.choose(value.shape[-1]), 0]}]; np.take({a}, {[d.choose(along), -1]}, axis={axis})
        {a}[np.array({picks})[:, None], ...]; np.take({a}, {picks}, mode='wrap')
    """)
    if not d.ties(a):
        ways += [
            f"np.take_along_axis({a}, np.argsort({a}, axis={axis}), axis={axis})",
            f"np.take_along_axis({a}, np.argmax({a}, axis={axis}, keepdims=True), axis={axis})",
        ]
    if value.ndim > 1:
        ways += [f"{a}[{picks}, {[d.choose(value.shape[1]) for _ in picks]}]", f"np.diagonal({a})", f"{a}[0, {[0, -1]}]"]
    return str(d.one(ways))


@line("indexing")
def masked(d: Draft) -> str:
    """Indexing by a mask of the values."""
    a = d.array()
    d.value_dependent = True
    return d.way(f"""
        {a}[{a} > 0]; {a}[np.nonzero({a} < 0.5)]; np.extract({a} > -0.5, {a}); np.compress([True], {a}, axis=0)
    """)


# Choosing


@line("selection")
def chosen(d: Draft) -> str:
    """A choice by value."""
    a = d.operand()
    b = d.operand(lambda value: broadcasts(value, d.space[a]))
    return d.way(f"""
        np.where({a} > 0.1, {a}, {b}); np.where({a} > 0, np.sqrt({a}), {b}); np.where({a} != 0, np.sin({a}) / {a}, 1.0)
        np.maximum({a}, {b}); np.clip({a}, -0.70037, 0.90037); np.minimum({a}, 0.3)
        np.select([{a} > 1, {a} > 0], [{b}, {a} * 2], 0.5); np.where({a} > 0.1, np.log(np.where({a} > 0.1, {a}, 1.0)), {b})
        np.clip({a}, {b} - 1, {b} + 1)
    """)


# Joining


@line("joining")
def joined(d: Draft) -> str:
    """Several values together, or a piece of one."""
    a = d.array()
    ndim, shape = np.ndim(d.space[a]), np.shape(d.space[a])
    b = d.operand(lambda value: np.shape(value) == shape)
    axis = d.axis(ndim)
    return d.way(f"""
        np.concatenate([{a}, {b}], axis={axis}); np.stack([{a}, {b}, {a}], axis={axis}); np.vstack([{a}, {b}])
        np.hstack(({a}, {b})); np.append({a}, {b}); np.block([{a}, {b}]); np.array_split({a}, 2, axis={axis})
        np.column_stack([{a}, {b}]); np.dstack([{a}, {b}]); np.concatenate([{a}, np.zeros({shape})], axis={axis})
        np.meshgrid({a}.ravel(), {b}.ravel()[:2])
    """)


# Products


@line("contractions")
def product(d: Draft) -> str:
    """A product of matrices or vectors."""
    a = d.array()
    ndim, shape = np.ndim(d.space[a]), np.shape(d.space[a])
    b = d.operand(lambda value: np.shape(value) == shape)
    if ndim == 1:
        name = d.one(["dot", "inner", "outer", "vdot", "kron", "convolve", "correlate", "matmul"])
        return f"np.{name}({a}, {b})"
    ways = listed(f"""
        {a} @ np.swapaxes({b}, -1, -2); np.matmul(np.swapaxes({a}, -2, -1), {b}); np.inner({a}, {b})
        np.tensordot({a}, {b}, {ndim}); np.tensordot({a}, {b}, ([0], [0])); {a} @ np.ones({shape[-1]}); np.vdot({a}, {b})
    """)
    ways += [f"np.dot({a}, {b}.T)"] if ndim == 2 else [f"{a} @ np.swapaxes({b}[0], -1, -2)", f"np.linalg.vecdot({a}, {b})"]
    return str(d.one(ways))


@line("contractions")
def einsum(d: Draft) -> str:
    """`np.einsum` with letters drawn for axes of fitting lengths."""
    operands = [d.array(0) for _ in range(1 + d.choose(3))]
    lengths: dict[str, int] = {}
    terms = []
    for name in operands:
        term = ""
        for length in np.shape(d.space[name]):
            fresh = "abcdefgh"[len(lengths)] if len(lengths) < 8 else ""
            letter = d.one([*[c for c, n in lengths.items() if n == length], *fresh])
            lengths[letter] = length
            term += letter
        terms.append(term)
    result = "".join(letter for letter in lengths if d.choose(2))
    return f"np.einsum('{','.join(terms)}->{result}', {', '.join(operands)})"


# Matrices


@line("linalg")
def matrix(d: Draft) -> str:
    """A function of a well-conditioned square matrix."""
    a = d.array(2)
    n = np.shape(d.space[a])[-1]
    inner = d.within(a, -1.5, 1.5)
    square = f"np.matmul(np.swapaxes({inner}, -1, -2), {inner}) / 4 + np.diag(np.arange(1.0, {n + 1}))"
    ways = [f"np.linalg.{name}({square})" for name in ("inv", "det", "eigvalsh", "cholesky", "slogdet", "pinv")]
    ways += listed(f"""
        np.linalg.solve({square}, np.swapaxes({a}, -1, -2)[..., :1]); np.linalg.matrix_power({square}, {d.one([2, 3, -1])})
        np.linalg.eigh({square})[0]; np.linalg.svd({square}, compute_uv=False); np.trace({square}, axis1=-2, axis2=-1)
        np.linalg.qr({square}); np.linalg.norm({square}, axis=(-2, -1))
    """)
    ways += [f"np.linalg.cond({square})"] if np.linalg.cond in ENTRIES else []
    return str(d.one(ways))


@line("fft")
def transform(d: Draft) -> str:
    """A Fourier transform."""
    a = d.array()
    axis = d.axis(np.ndim(d.space[a]))
    norm = d.one(["", ", norm='ortho'", ", norm='forward'"])
    ways = [f"np.fft.{name}({a}, {n}, axis={axis}{norm})" for name in ("rfft", "fft", "ifft", "hfft") for n in (None, 3)]
    ways += [
        f"np.fft.irfft(np.fft.rfft({a}, axis={axis}), 4, axis={axis}{norm})",
        f"np.fft.fftn({a}{norm})",
        f"np.fft.fftshift({a})",
    ]
    return str(d.one(ways))


@line("ordering")
def ordered(d: Draft) -> str:
    """Values in order."""
    a = d.untied()
    axis = d.axis(np.ndim(d.space[a]))
    ways = [f"np.sort({a}, axis={axis})", f"np.partition({a}, 0, axis={axis})", f"{a}.ravel()[np.argsort({a}, axis=None)]"]
    return str(d.one([*ways, f"np.percentile({a}, [20, 70], axis={axis})", f"np.sort({a}, axis=None)"]))


@line("nan")
def skipping(d: Draft) -> str:
    """A function that skips NaN."""
    a = d.untied()
    axis = d.axes(np.ndim(d.space[a]))
    holed = f"np.where({a} > 1.2, np.nan, {a})"
    name = d.one(["sum", "mean", "max", "min", "prod", "var", "std", "median"])
    return str(
        d.one([f"np.nan{name}({holed}, axis={axis})", f"np.nan_to_num({holed})", f"np.nanquantile({holed}, 0.4, axis={axis})"])
    )
