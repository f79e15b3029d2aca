"""Random lines that compute new values, by family, for values of any shape up to rank 4."""

from __future__ import annotations

import math

import numpy as np

from functad.testing.programs.drafts import Draft, Impossible, broadcasts, line, table

MOST = 10_000_000
"""The largest number of products in one `einsum`; large inputs would otherwise take minutes."""


@line("elementwise")
def operator(d: Draft) -> str:
    """Return an operator on two values that broadcast, or on a value and a constant."""
    a = d.operand()
    b = d.number() if d.choose(3) == 2 else d.operand(lambda value: broadcasts(value, d.space[a]))
    sign = d.one(["+", "*", "-", "/", "**", "%"])
    if sign == "%" and a == b:  # `x % x` is discontinuous
        sign = "+"
    if sign in "/%":
        b = d.within(b, 0.5, 3.0)
    if sign == "**":
        a = d.within(a, 0.3, 2.0)
    left, right = (a, b) if d.choose(2) or sign in "/%**" else (b, a)
    return f"{left} {sign} {right}"


# Repeated use of one value, so that cotangents accumulate.
table("elementwise", Draft.operand)("""
    {a} * {a} + {a}; {a} * np.sin({a}) - 0.5 * {a}; -{a} + abs({a}); (2 - {a}) * {a} / 3
""")

table("reductions", Draft.filled)("""
    np.{sum|mean|max|prod|min|var|std|ptp}({a}, axis={axes}{|, keepdims=True})
    {a}.{sum|mean|max|prod|min|var|std}(axis={axes}{|, keepdims=True}); np.mean({a}, axis={axes}, where={a} < 1.5)
    np.{sum|prod|max|min}({a}, axis={axes}, where={a} < 1.5, initial=0.98765)
    {a}.{var|std}(axis={axes}, {ddof=0.5|correction=0})
""")
table("reductions", Draft.array)("""
    np.linalg.norm({a}, {None|1|np.inf|3|-np.inf}, axis={axis})
""")
table("reductions", Draft.array)("""
    np.{add|multiply|maximum|minimum}.{reduce|accumulate}({a}, axis={axis})
    np.{add|multiply|maximum|minimum|subtract}.outer({a}, {v})
""")
table("reductions", Draft.untied)("""
    np.median({a}, axis={axis}); np.quantile({a}, 0.3, axis={axis}); np.average({a}, axis={axis})
""")
table("scans", Draft.array)("""
    np.{cumsum|cumprod|diff|gradient|unwrap|nancumsum}({a}, axis={axis})
""")

table("shaping", Draft.filled)("""
    np.reshape({a}, {reshaped}{|, order='F'}); {a}.reshape({reshaped}{|, order='F'})
""")
table("shaping", Draft.matrix)("""
    {a}.T; np.transpose({a}, {permuted}); np.{swapaxes|moveaxis}({a}, {axis}, {other}); np.matrix_transpose({a})
""")
table("shaping", Draft.filled)("""
    np.expand_dims({a}, 0); np.atleast_2d({a}); np.tile({a}, 2); np.squeeze({a}); np.ravel({a}); {a}.flatten()
    np.broadcast_to({a}, (2, *{shape})); np.repeat({a}, 2); {a} + np.zeros(2)[:, None]
""")
table("shaping", Draft.array)("""
    np.repeat({a}, 2, axis={axis}); np.flip({a}, {axis}); np.roll({a}, 1, axis={axis}); np.roll({a}, -2)
    np.pad({a}, 1, mode='{constant|edge|wrap|reflect}'); np.tril({a}); np.triu({a}, 1)
    np.delete({a}, 0, axis={axis}); np.insert({a}, 1, 0.5, axis={axis})
""")

table("indexing", Draft.array)("""
    {a}[{index}]
""")
table("indexing", Draft.array)("""
    {a}[{picks}]; {a}[..., [{in_last}, 0]]; np.take({a}, [{in_axis}, -1], axis={axis}); {a}[np.array({picks})[:, None], ...]
    np.take({a}, {picks}, mode='wrap'); {a}[{picks}, {in_last}]; {a}[[0, -1], [0, {in_last}]]; {a}[0, [0, -1]]
    np.diagonal({a})
""")
table("indexing", Draft.untied)("""
    np.take_along_axis({a}, np.argsort({a}, axis={axis}), axis={axis})
    np.take_along_axis({a}, np.argmax({a}, axis={axis}, keepdims=True), axis={axis})
""")
table("indexing", Draft.array)("""
    {a}[{a} > 0]; {a}[np.nonzero({a} < 0.5)]; np.extract({a} > -0.5, {a}); np.compress([True], {a}, axis=0)
""")

table("selection", Draft.operand)("""
    np.where({a} > 0.1, {a}, {b}); np.where({a} > 0, np.sqrt({a}), {b}); np.where({a} != 0, np.sin({a}) / {a}, 1.0)
    np.maximum({a}, {b}); np.clip({a}, -0.70037, 0.90037); np.minimum({a}, 0.3)
    np.select([{a} > 1, {a} > 0], [{b}, {a} * 2], 0.5); np.where({a} > 0.1, np.log(np.where({a} > 0.1, {a}, 1.0)), {b})
    np.clip({a}, {b} - 1, {b} + 1)
""")

table("joining", Draft.array)("""
    np.concatenate([{a}, {same}], axis={axis}); np.stack([{a}, {same}, {a}], axis={axis}); np.vstack([{a}, {same}])
    np.hstack(({a}, {same})); np.append({a}, {same}); np.block([{a}, {same}]); np.array_split({a}, 2, axis={axis})
    np.column_stack([{a}, {same}]); np.dstack([{a}, {same}]); np.concatenate([{a}, np.zeros({shape})], axis={axis})
    np.meshgrid({a}.ravel(), {same}.ravel()[:2])
""")

table("contractions", Draft.array)("""
    np.{dot|inner|outer|vdot|kron|convolve|correlate|matmul}({a}, {same}); {a} @ np.ones({last})
    np.tensordot({a}, {same}, {ndim})
""")
table("contractions", Draft.matrix)("""
    {a} @ np.swapaxes({same}, -1, -2); np.matmul(np.swapaxes({a}, -2, -1), {same}); np.tensordot({a}, {same}, ([0], [0]))
    np.dot({a}, {same}.T); {a} @ np.swapaxes({same}[0], -1, -2); np.linalg.vecdot({a}, {same})
""")


@line("contractions")
def einsum(d: Draft) -> str:
    """Return an `np.einsum` call with random letters for axes of equal length."""
    operands = [d.filled() for _ in range(1 + d.choose(3))]
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
    if math.prod(lengths.values()) > MOST:
        raise Impossible
    result = "".join(letter for letter in lengths if d.choose(2))
    return f"np.einsum('{','.join(terms)}->{result}', {', '.join(operands)})"


table("linalg", Draft.matrix)("""
    np.linalg.{inv|det|eigvalsh|cholesky|slogdet|pinv|qr|cond}({square}); np.linalg.matrix_power({square}, {2|3|-1})
    np.linalg.solve({square}, np.swapaxes({a}, -1, -2)[..., :1]); np.linalg.eigh({square})[0]
    np.linalg.svd({square}, compute_uv=False); np.trace({square}, axis1=-2, axis2=-1); np.linalg.norm({square}, axis=(-2, -1))
""")
table("fft", Draft.array)("""
    np.fft.{rfft|fft|ifft|hfft}({a}, {None|3}, axis={axis}{|, norm='ortho'|, norm='forward'})
    np.fft.irfft(np.fft.rfft({a}, axis={axis}), 4, axis={axis}{|, norm='ortho'|, norm='forward'})
    np.fft.fftn({a}{|, norm='ortho'|, norm='forward'}); np.fft.fftshift({a})
""")
table("ordering", Draft.untied)("""
    np.sort({a}, axis={axis}); np.partition({a}, 0, axis={axis}); {a}.ravel()[np.argsort({a}, axis=None)]
    np.percentile({a}, [20, 70], axis={axis}); np.sort({a}, axis=None)
""")
table("nan", Draft.untied)("""
    np.nan{sum|mean|max|min|prod|var|std|median}({holed}, axis={axes}); np.nan_to_num({holed})
    np.nanquantile({holed}, 0.4, axis={axes})
""")
