"""The methods of arrays on Tensors."""
class ArrayMethods:
    __slots__ = ()
