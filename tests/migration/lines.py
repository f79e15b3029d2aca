"""Old lines and new lines, by library. This file imports none of them, since each runs in an environment of its own.

The last line of either side is an expression; both must have the same value. What stands before is executed first.
"""

from __future__ import annotations

from dataclasses import dataclass

POINT = "np.array([0.5, -1.0, 2.0])"


@dataclass(frozen=True)
class Pair:
    """One row: what is wanted, the old lines, and the new ones."""

    wanted: str
    old: str
    new: str


@dataclass(frozen=True)
class Library:
    """A library: its title, what programs for it begin with, the same for functad, pairs, and what else to know."""

    title: str
    before: str
    after: str
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]


LIBRARIES = {
    "autograd": Library(
        "autograd",
        "import autograd.numpy as np\n"
        "from autograd import grad, jacobian, hessian, value_and_grad, make_vjp, make_jvp\n"
        "from autograd import elementwise_grad, hessian_vector_product, checkpoint\n"
        "from autograd.extend import primitive, defvjp",
        "import numpy as np\nimport functad",
        (
            Pair(
                "a gradient",
                "grad(lambda x: np.sum(np.sin(x)))(x)",
                "functad.grad(lambda x: np.sum(np.sin(x)))(x)",
            ),
            Pair(
                "by another argument",
                "grad(lambda a, x: np.sum(a * x), 1)(2.0, x)",
                "functad.grad(lambda a, x: np.sum(a * x), 1)(2.0, x)",
            ),
            Pair(
                "value and gradient",
                "value_and_grad(lambda x: x @ x)(x)",
                "functad.value_and_grad(lambda x: x @ x)(x)",
            ),
            Pair(
                "a Jacobian",
                "jacobian(lambda x: x * np.sum(x))(x)",
                "functad.jacobian(lambda x: x * np.sum(x))(x)",
            ),
            Pair(
                "a Hessian",
                "hessian(lambda x: np.sum(x**3))(x)",
                "functad.hessian(lambda x: np.sum(x**3))(x)",
            ),
            Pair(
                "Hessian times vector",
                "hessian_vector_product(lambda x: np.sum(x**3))(x, x)",
                "functad.hvp(lambda x: np.sum(x**3), (x,), (x,))",
            ),
            Pair(
                "element by element",
                "elementwise_grad(np.tanh)(x)",
                "functad.elementwise_grad(np.tanh)(x)",
            ),
            Pair(
                "reverse mode",
                "pull, value = make_vjp(np.exp)(x)\npull(x)",
                "value, pull = functad.vjp(np.exp, x)\npull(x)[0]",
            ),
            Pair(
                "forward mode",
                "make_jvp(np.exp)(x)(x)",
                "functad.jvp(np.exp, (x,), (x,))",
            ),
            Pair(
                "less memory",
                "grad(lambda x: np.sum(checkpoint(np.sin)(x)))(x)",
                "functad.grad(lambda x: np.sum(functad.checkpoint(np.sin)(x)))(x)",
            ),
            Pair(
                "a rule of your own",
                "cube = primitive(lambda x: x**3)\n"
                "defvjp(cube, lambda out, x: lambda g: 3 * x**2 * g)\n"
                "grad(lambda x: np.sum(cube(x)))(x)",
                "cube = functad.custom_vjp(lambda x: x**3)\n"
                "cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * x**2 * g,))\n"
                "functad.grad(lambda x: np.sum(cube(x)))(x)",
            ),
        ),
        (
            "Import plain NumPy in place of `autograd.numpy`.",
            "Assignment works: `x[0] = 1.0`, `x += y`. `np.array` of a list of Tensors raises an error that names the fix.",
        ),
    ),
    "jax": Library(
        "JAX",
        "import jax, jax.numpy as jnp\njax.config.update('jax_enable_x64', True)",
        "import numpy as np\nimport functad",
        (
            Pair(
                "a gradient",
                "jax.grad(lambda x: jnp.sum(jnp.sin(x)))(x)",
                "functad.grad(lambda x: np.sum(np.sin(x)))(x)",
            ),
            Pair(
                "value and gradient",
                "jax.value_and_grad(lambda x: x @ x)(x)",
                "functad.value_and_grad(lambda x: x @ x)(x)",
            ),
            Pair(
                "Jacobians",
                "jax.jacfwd(lambda x: x * jnp.sum(x))(x)",
                "functad.jacobian(lambda x: x * np.sum(x))(x)",
            ),
            Pair(
                "a Hessian",
                "jax.hessian(lambda x: jnp.sum(x**3))(x)",
                "functad.hessian(lambda x: np.sum(x**3))(x)",
            ),
            Pair(
                "Hessian times vector",
                "jax.jvp(jax.grad(lambda x: jnp.sum(x**3)), (x,), (x,))[1]",
                "functad.hvp(lambda x: np.sum(x**3), (x,), (x,))",
            ),
            Pair(
                "forward mode",
                "jax.jvp(jnp.exp, (x,), (x,))",
                "functad.jvp(np.exp, (x,), (x,))",
            ),
            Pair(
                "reverse mode",
                "jax.vjp(jnp.exp, x)[1](x)[0]",
                "functad.vjp(np.exp, x)[1](x)[0]",
            ),
            Pair(
                "a batch",
                "jax.vmap(lambda a: a * jnp.sum(x))(x)",
                "functad.vmap(lambda a: a * np.sum(x))(x)",
            ),
            Pair(
                "compiled",
                "jax.jit(jax.grad(lambda x: jnp.sum(x**2)))(x)",
                "functad.jit(functad.grad(lambda x: np.sum(x**2)))(x)",
            ),
            Pair(
                "assignment",
                "jnp.asarray(x).at[0].set(7.0)",
                "y = x.copy()\ny[0] = 7.0\ny",
            ),
            Pair(
                "a loop",
                "jax.lax.scan(lambda c, a: (c + a, c * a), 0.0, x)",
                "functad.scan(lambda c, a: (c + a, c * a), 0.0, x)",
            ),
            Pair(
                "a branch in a batch",
                "jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)",
                "functad.cond(x[0] > 0, np.sin, np.cos, x)",
            ),
            Pair(
                "a constant",
                "jax.grad(lambda t: t * jax.lax.stop_gradient(t))(3.0)",
                "functad.grad(lambda t: t * functad.stop_gradient(t))(3.0)",
            ),
            Pair(
                "containers",
                "jax.tree.map(lambda a: 2 * a, {'a': x})",
                "functad.tree_map(lambda a: 2 * a, {'a': x})",
            ),
            Pair(
                "less memory",
                "jax.grad(lambda x: jnp.sum(jax.checkpoint(jnp.sin)(x)))(x)",
                "functad.grad(lambda x: np.sum(functad.checkpoint(np.sin)(x)))(x)",
            ),
            Pair(
                "shapes alone",
                "jax.eval_shape(jnp.outer, x, x).shape",
                "functad.eval_shape(np.outer, x, x).shape",
            ),
        ),
        (
            "Arrays are NumPy arrays: their default dtype is float64, and they are mutable.",
            "Python's `if` and `while` work in gradients and under `jit`. In `vmap` they raise an error, as in JAX.",
            "To call a function of JAX from functad, use a bridge: [Bridges](bridges.md).",
        ),
    ),
    "torch": Library(
        "PyTorch",
        "import torch\nt = torch.tensor(x, requires_grad=True)",
        "import numpy as np\nimport functad",
        (
            Pair(
                "a gradient",
                "torch.sum(torch.sin(t)).backward()\nt.grad",
                "functad.grad(lambda x: np.sum(np.sin(x)))(x)",
            ),
            Pair(
                "the same by a tape",
                "torch.autograd.grad(torch.sum(torch.sin(t)), t)[0]",
                "v = functad.Variable(x)\nwith functad.GradientTape() as tape:\n    y = np.sum(np.sin(v))\ntape.gradient(y, v)",
            ),
            Pair(
                "a function's gradient",
                "torch.func.grad(lambda t: t @ t)(t)",
                "functad.grad(lambda x: x @ x)(x)",
            ),
            Pair(
                "a second derivative",
                "(g,) = torch.autograd.grad((t**3).sum(), t, create_graph=True)\ntorch.autograd.grad(g.sum(), t)[0]",
                "g = functad.grad(lambda x: np.sum(x**3))\nfunctad.grad(lambda x: np.sum(g(x)))(x)",
            ),
            Pair(
                "Jacobians",
                "torch.func.jacrev(lambda t: t * t.sum())(t)",
                "functad.jacobian(lambda x: x * x.sum())(x)",
            ),
            Pair(
                "a Hessian",
                "torch.func.hessian(lambda t: (t**3).sum())(t)",
                "functad.hessian(lambda x: (x**3).sum())(x)",
            ),
            Pair(
                "a batch",
                "torch.func.vmap(lambda a: a * t.sum())(t)",
                "functad.vmap(lambda a: a * x.sum())(x)",
            ),
            Pair(
                "forward mode",
                "torch.func.jvp(torch.exp, (t,), (t,))",
                "functad.jvp(np.exp, (x,), (x,))",
            ),
            Pair(
                "a constant",
                "torch.func.grad(lambda t: (t * t.detach()).sum())(t)",
                "functad.grad(lambda x: (x * functad.stop_gradient(x)).sum())(x)",
            ),
            Pair(
                "a step of SGD",
                "optimizer = torch.optim.SGD([t], lr=0.1)\n(t**2).sum().backward()\noptimizer.step()\nt",
                "v, optimizer = functad.Variable(x), functad.optimizers.SGD(0.1)\n"
                "with functad.GradientTape() as tape:\n"
                "    y = np.sum(v**2)\n"
                "optimizer.apply_gradients([(tape.gradient(y, v), v)])\n"
                "v",
            ),
        ),
        (
            "Gradients are returned, not accumulated in `.grad`. There is no `zero_grad()`.",
            "There is no `torch.no_grad()`. Inside a tape, use `tape.stop_recording()`.",
            "To call a function of PyTorch from functad, use a bridge: [Bridges](bridges.md).",
        ),
    ),
    "tensorflow": Library(
        "TensorFlow",
        "import tensorflow as tf\nv = tf.Variable(x)",
        "import numpy as np\nimport functad\nv = functad.Variable(x)",
        (
            Pair(
                "a gradient",
                "with tf.GradientTape() as tape:\n    y = tf.reduce_sum(tf.sin(v))\ntape.gradient(y, v)",
                "with functad.GradientTape() as tape:\n    y = np.sum(np.sin(v))\ntape.gradient(y, v)",
            ),
            Pair(
                "by a constant",
                "c = tf.constant(3.0)\nwith tf.GradientTape() as tape:\n    tape.watch(c)\n    y = c**3\ntape.gradient(y, c)",
                "c = functad.constant(3.0)\n"
                "with functad.GradientTape() as tape:\n"
                "    tape.watch(c)\n"
                "    y = c**3\n"
                "tape.gradient(y, c)",
            ),
            Pair(
                "a Jacobian",
                "with tf.GradientTape() as tape:\n    y = v * tf.reduce_sum(v)\ntape.jacobian(y, v)",
                "with functad.GradientTape() as tape:\n    y = v * np.sum(v)\ntape.jacobian(y, v)",
            ),
            Pair(
                "forward mode",
                "with tf.autodiff.ForwardAccumulator(v, tf.constant(x)) as forward:\n    y = tf.exp(v)\nforward.jvp(y)",
                "with functad.ForwardAccumulator(v, x) as forward:\n    y = np.exp(v)\nforward.jvp(y)",
            ),
            Pair(
                "a derivative of your own",
                "@tf.custom_gradient\n"
                "def cube(t):\n"
                "    return t**3, lambda g: 3 * t**2 * g\n"
                "with tf.GradientTape() as tape:\n"
                "    y = tf.reduce_sum(cube(v))\n"
                "tape.gradient(y, v)",
                "@functad.custom_gradient\n"
                "def cube(t):\n"
                "    return t**3, lambda g: 3 * t**2 * g\n"
                "with functad.GradientTape() as tape:\n"
                "    y = np.sum(cube(v))\n"
                "tape.gradient(y, v)",
            ),
            Pair(
                "an assignment",
                "v.assign_add(x)\nv",
                "v.assign_add(x)\nv",
            ),
        ),
        (
            "To run a whole TensorFlow program, change its imports: [Code written for TensorFlow](tensorflow.md).",
            "Python floats are float64, not float32. functad also records NumPy functions.",
        ),
    ),
    "mygrad": Library(
        "MyGrad",
        "import mygrad as mg\nt = mg.tensor(x)",
        "import numpy as np\nimport functad",
        (
            Pair(
                "a gradient",
                "mg.sum(mg.sin(t)).backward()\nt.grad",
                "functad.grad(lambda x: np.sum(np.sin(x)))(x)",
            ),
            Pair(
                "by functions of NumPy",
                "y = np.sum(np.exp(t) * t)\ny.backward()\nt.grad",
                "functad.grad(lambda x: np.sum(np.exp(x) * x))(x)",
            ),
            Pair(
                "a constant",
                "(t * mg.tensor(2.0, constant=True)).sum().backward()\nt.grad",
                "functad.grad(lambda x: (x * 2.0).sum())(x)",
            ),
            Pair(
                "assignment",
                "y = t * 1.0\ny[0] = 0.0\n(y**2).sum().backward()\nt.grad",
                "def f(x):\n    y = x * 1.0\n    y[0] = 0.0\n    return np.sum(y**2)\nfunctad.grad(f)(x)",
            ),
        ),
        ("MyGrad computes first gradients only. It has no second derivatives, forward mode, Jacobians or batches.",),
    ),
}
