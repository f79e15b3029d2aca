"""Names that code uses as values: all uses except direct calls, attribute accesses, and arguments that are only read.

The bytecode of a function is interpreted symbolically. An item of the symbolic stack is the set of names through which the
object on the real stack may have been loaded. A name counts as used if an instruction consumes it and the consumer may keep,
return or compare the object. Uncertain cases count as uses.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Container
from types import CodeType
from typing import Any

from functad.adoption.code import codes_of, has_instruction

Item = frozenset[str]
NOTHING: Item = frozenset()
CONSTANT: Item = frozenset({" constant"})
UNKNOWN: Item = frozenset({" unknown"})
"""An operand of `is` that is compared with a non-constant operand."""

IMPORTED = "import "
"""The prefix of a name that a function binds by an `import` statement in its body."""

_A_TYPE = " type"
"""The result of `type(x)`."""

IS = "is"
"""The reader of a comparison by `is`, in the place of a function name."""

LOCAL = "local "
"""The prefix of the name of a parameter, or of a name from an enclosing function."""

SELF: Item = frozenset({f"{LOCAL}self"})
"""An instance of a user class. The `__eq__` of dataclasses compares it by `is` from Python 3.13 on."""

STORED = "="
"""The prefix of the name of an attribute that receives a value."""

Aliases = dict[str, Item]
"""Maps a local name to the dotted names of the objects that it may hold."""

_PUSH_ONLY = frozenset({
    "NOP", "RESUME", "CACHE", "PRECALL", "EXTENDED_ARG", "MAKE_CELL", "COPY_FREE_VARS", "PUSH_NULL", "JUMP_FORWARD",
    "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_GENERATOR", "NOT_TAKEN", "LOAD_CONST", "LOAD_SMALL_INT",
    "LOAD_CLOSURE", "LOAD_BUILD_CLASS", "LOAD_ASSERTION_ERROR", "LOAD_CONST_IMMORTAL", "LOAD_COMMON_CONSTANT", "RETURN_CONST",
})  # fmt: skip
_LOCAL = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_STORE = frozenset({"STORE_FAST", "STORE_DEREF"})
_BUILD = frozenset({"BUILD_TUPLE", "BUILD_LIST", "BUILD_SET"})
_BY_EQUALITY = frozenset({"COMPARE_OP", "CONTAINS_OP", "BINARY_SUBSCR"})
"""Instructions that compare or hash their operands; a replacement gives the same result as the original."""
_FORMATS = ("FORMAT_", "CONVERT_")
"""Prefixes of instructions that format an operand as text; a replacement gives the same text as the original."""
_ENDS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RETURN_CONST", "RERAISE",
                   "RAISE_VARARGS"})  # fmt: skip
_EMPTY_ABOVE = sys.version_info >= (3, 13)
"""From Python 3.13 on, the null item that comes with a called global lies above the name, otherwise below."""
_RESULTLESS = ("POP_", "STORE_", "DELETE_", "RETURN_", "RAISE_", "LIST_", "SET_", "DICT_", "MAP_", "END_")
"""Prefixes of instructions that pop their operands and push no result."""

Use = tuple[str, str]
"""The dotted name of a value, and the dotted name of the function that takes it as an argument (empty for other uses)."""


def names_used_as_values(code: CodeType) -> frozenset[Use]:
    """Return the dotted names that a function and its nested functions use as values, with the reader of each.

    Returns:
        Pairs of names. A global name reads `np.sum`, a name imported inside the function `import numpy.sum`, and a method of
        any other object `?.astype`.
    """
    used: set[Use] = set()
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    _interpret(code, {name: frozenset({f"{LOCAL}{name}"}) for name in (*given, *code.co_freevars)}, used)
    return frozenset(used)


def may_use_as_values(code: CodeType, names: Container[str], packages: Container[str]) -> bool:
    """Return `True` if a function may use one of `names` as a value; ten times faster than the interpretation.

    Args:
        code: the code of the function.
        names: last parts of dotted names.
        packages: an import of one of these packages inside the function counts too, as the local name may be used as a value.
    """
    return any(has_instruction(part, _IS) or _may_use(part, names, packages) for part in codes_of(code))


def _may_use(code: CodeType, names: Container[str], packages: Container[str]) -> bool:
    found = rooted = called = False  # a value was loaded; it is an attribute of a global; a call follows
    before = 0
    raw, own = code.co_code, code.co_names
    extended = 0
    for place in range(0, len(raw), 2):
        operation = raw[place]
        if operation == _CACHE:
            continue
        operand = raw[place + 1] | extended
        extended = operand << 8 if operation == _EXTENDED else 0
        if operation == _ATTR and rooted:
            found = own[operand >> _ATTR_SHIFT] in names and not called and not (_ATTR_SHIFT and operand & 1)
            continue
        if found and operation != _EXTENDED and operation not in _CALLING:
            return True
        found = found and operation == _EXTENDED
        if operation == _GLOBAL_NAME:
            rooted, called = True, before == _PUSH_NULL or bool(operand & 1)
            found = not called and own[operand >> 1] in names
        elif operation != _EXTENDED:
            rooted = False
            if operation == _IMPORT and own[operand].partition(".")[0] in packages:
                return True
        before = operation if operation != _EXTENDED else before
    return found


_CACHE, _GLOBAL_NAME, _ATTR = dis.opmap["CACHE"], dis.opmap["LOAD_GLOBAL"], dis.opmap["LOAD_ATTR"]
_IMPORT, _PUSH_NULL, _EXTENDED = dis.opmap["IMPORT_NAME"], dis.opmap["PUSH_NULL"], dis.EXTENDED_ARG
_BACKWARD = [number for name, number in dis.opmap.items() if "JUMP_BACKWARD" in name]
_IS = dis.opmap["IS_OP"]
_ATTR_SHIFT = int(sys.version_info >= (3, 12))
_CALLING = frozenset({_PUSH_NULL, dis.opmap.get("LOAD_METHOD", _PUSH_NULL)})


class _Stack:
    """The symbolic stack of one code object; a pop from the empty stack returns an item without names."""

    def __init__(self, used: set[Use]) -> None:
        self.items: list[Item] = []
        self.used = used

    def push(self, *items: Item) -> None:
        self.items.extend(items)

    def pop(self) -> Item:
        return self.items.pop() if self.items else NOTHING

    def consume(self, count: int) -> None:
        """Pop items that the consumer may keep."""
        for _ in range(count):
            self.use(self.pop())

    def use(self, item: Item, readers: Item = frozenset({""})) -> None:
        """Record that names are used, as arguments of `readers` if given."""
        if item is not CONSTANT:
            self.used.update([(path, reader) for path in item for reader in readers])

    def join(self, other: list[Item] | None, reached: bool) -> None:
        """Merge the stack of another path into this one; `reached` is `False` if only the other path leads here."""
        if other is None:
            self.items = self.items if reached else []
        elif not reached or len(other) != len(self.items):
            for item in self.items if reached else ():
                self.use(item)
            self.items = list(other)
        else:
            self.items = [a | b for a, b in zip(self.items, other, strict=True)]


def _interpret(code: CodeType, outer: Aliases, used: set[Use]) -> None:
    """Interpret a code object and its nested code; twice if a loop may read a local name before it is bound."""
    aliases = dict(outer)
    for _ in range(2):
        known = dict(aliases)
        _follow(code, aliases, used)
        if known == aliases or not any(has_instruction(code, jump) for jump in _BACKWARD):
            break
    for const in code.co_consts:
        if isinstance(const, CodeType):
            _interpret(const, {name: aliases[name] for name in const.co_freevars if name in aliases}, used)


def _follow(code: CodeType, aliases: Aliases, used: set[Use]) -> None:
    stack, waiting, reached = _Stack(used), dict[int, list[Item]](), True
    keywords: tuple[str, ...] = ()
    before: Any = None  # the operand of the previous instruction
    for step in dis.get_instructions(code):
        name = step.opname
        if step.is_jump_target:
            stack.join(waiting.pop(step.offset, None), reached)
            reached = True
        if name == "KW_NAMES":
            keywords = code.co_consts[step.arg or 0]
        elif name in ("CALL", "CALL_KW"):
            if name == "CALL_KW":
                stack.pop()
                keywords = before
            _call(stack, step.arg or 0, keywords)
            keywords = ()
        else:
            _step(stack, step, aliases, before)
        if (step.opcode in dis.hasjrel or step.opcode in dis.hasjabs) and step.argval > step.offset:
            waiting.setdefault(step.argval, _where_it_jumps(stack.items, step))
        if name in _ENDS:
            reached = False
            stack.items = []
        before = step.argval


def _where_it_jumps(items: list[Item], step: dis.Instruction) -> list[Item]:
    """Return the stack at a jump target, given the stack if the jump is not taken."""
    more = dis.stack_effect(step.opcode, step.arg, jump=True) - dis.stack_effect(step.opcode, step.arg, jump=False)
    return [*items, *[NOTHING] * more] if more >= 0 else items[:more]


def _step(stack: _Stack, step: dis.Instruction, aliases: Aliases, fromlist: Any) -> None:
    """Apply an instruction that is not a call."""
    name, arg = step.opname, step.arg
    if type(step.argval) is tuple and "_FAST_" in name:  # Python 3.13 fuses pairs of loads and stores
        first, second = name.startswith("STORE_FAST"), name.startswith("STORE_FAST_STORE")
        for local, stores in zip(step.argval, (first, second), strict=True):
            if stores:
                _bind(aliases, local, stack.pop())
            else:
                stack.push(aliases.get(local, NOTHING))
    elif name in _GLOBAL or name in _LOCAL:
        item = frozenset({step.argval}) if name in _GLOBAL else aliases.get(step.argval, NOTHING)
        empty = [NOTHING] * (dis.stack_effect(step.opcode, arg, jump=False) - 1)
        stack.push(*((item, *empty) if _EMPTY_ABOVE else (*empty, item)))
    elif name in ("LOAD_ATTR", "LOAD_METHOD"):
        found = frozenset([f"{path}.{step.argval}" for path in stack.pop()]) or frozenset({f"?.{step.argval}"})
        pushed = 1 + dis.stack_effect(step.opcode, arg, jump=False)
        stack.push(*[found] * pushed)
    elif name == "IMPORT_NAME":
        stack.consume(2)
        path = step.argval if fromlist else step.argval.partition(".")[0]
        stack.push(frozenset({f"{IMPORTED}{path}"}))
    elif name == "IMPORT_FROM":
        module = stack.pop()
        stack.push(module, frozenset([f"{path}.{step.argval}" for path in module]))
    elif name in _STORE:
        _bind(aliases, step.argval, stack.pop())
    elif name == "STORE_ATTR":
        stack.pop()
        stack.use(stack.pop(), frozenset({f"{STORED}{step.argval}"}))
    elif name in _BUILD:
        held = [stack.pop() for _ in range(arg or 0)]
        stack.push(NOTHING.union(*held))
    elif name == "SWAP":
        items = stack.items
        if arg is not None and len(items) >= arg:
            items[-1], items[-arg] = items[-arg], items[-1]
    elif name == "POP_TOP":
        stack.pop()
    elif name == "IS_OP":
        operands = stack.pop(), stack.pop()
        both = operands[0] | operands[1]
        if CONSTANT not in operands and SELF not in operands:
            known = any(path.endswith((_A_TYPE, ".__class__")) or not path.startswith((LOCAL, "?")) for path in both)
            stack.use(both if known else both | UNKNOWN, frozenset({IS}))
        stack.push(NOTHING)
    elif name == "BINARY_OP":
        stack.push(stack.pop() | stack.pop())  # a union of types
    elif name in _BY_EQUALITY:
        stack.pop()
        stack.pop()
        stack.push(NOTHING)
    elif name.startswith(_FORMATS):
        for _ in range(1 - dis.stack_effect(step.opcode, arg, jump=False)):
            stack.pop()
        stack.push(NOTHING)
    elif name == "CALL_FUNCTION_EX":
        stack.consume(1 + (arg or 0) % 2)
        stack.pop()
        stack.pop()
        stack.push(NOTHING)
    else:
        effect = dis.stack_effect(step.opcode, arg, jump=False)
        if name in _PUSH_ONLY or name.startswith("LOAD_FAST"):
            stack.push(*[CONSTANT if name == "LOAD_CONST" else NOTHING] * max(effect, 0))
            return
        popped = max(1, (0 if name.startswith(_RESULTLESS) else 1) - effect)
        stack.consume(popped)
        stack.push(*[NOTHING] * (effect + popped))


def _bind(aliases: Aliases, name: str, item: Item) -> None:
    if item:
        aliases[name] = aliases.get(name, NOTHING) | item


def _call(stack: _Stack, count: int, keywords: tuple[str, ...]) -> None:
    """Apply a call, and record the names used as arguments; positional and dtype arguments count for the called function."""
    args = [stack.pop() for _ in range(count)][::-1]
    readers = (stack.pop() | stack.pop()) or frozenset({""})
    for i, item in enumerate(args):
        keyword = keywords[i - count] if i >= count - len(keywords) else "dtype"
        if keyword != "otypes":  # the dtypes of np.vectorize
            stack.use(item, readers if keyword == "dtype" else frozenset({""}))
    stack.push(frozenset({_A_TYPE}) if readers == {"type"} and count == 1 else NOTHING)
