"""Functions that a tape records: what many tests of tapes ask about."""

import functad


def recorded(f, sources, **options):
    """Return a tape that watched some Tensors while a function without arguments ran, and the result."""
    with functad.GradientTape(**options) as tape:
        tape.watch(sources)
        y = f()
    return tape, y


def taped(f, *values, **options):
    """Return a tape that recorded a function of constants, the result, and the constants; those of floats are watched."""
    xs = [functad.constant(value) for value in values]
    return *recorded(lambda: f(*xs), [x for x in xs if x.dtype.kind in "fc"], **options), xs


def gradient(f, *values, **options):
    """Return the gradients of a function of Tensors by the tape, at values; one alone."""
    tape, y, xs = taped(f, *values)
    found = tape.gradient(y, xs, **options)
    return found[0] if len(found) == 1 else found


def floats(found):
    """Return gradients as numbers; `None` stays what it is."""
    return [None if g is None else float(g) for g in found]


def counting(calls):
    """Return the square with a gradient function that counts its calls."""

    @functad.custom_gradient
    def square(x):
        def pulled(dy):
            calls.append(dy.shape)
            return 2 * dy * x

        return x * x, pulled

    return square
