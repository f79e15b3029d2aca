"""Block loops: repeated statements of unrolled Python loops as one native loop, with their indices and lengths in a table.

A Python loop with slices that grow or shrink, such as `x[i] = b[i] - L[i, :i] @ x[:i]`, is unrolled in an expression list: its
steps have other shapes. The list is cut behind each write into an array. Blocks of equations that differ in integers only are
of one *kind*: bounds of slices, indices, lengths of axes. Nested loops give a few kinds, in any order. A block loop runs the
blocks in the order of the list: a table has the kind of each block and its integers. So forward and backward passes, and
nests of any depth, become native loops whose code does not grow with the number of steps.

A value that another block reads has a place in memory: a cell of an array that holds all values of its class, which is a row of
the array. The table has the numbers of the cells. A write into an array happens in place if no equation reads the array before
the write afterwards. The cells of values that no block reads any more are used again.
"""
