"""All families of ops for random programs.

A family is a function that adds an op of some kind to a program. Before, it reshapes and rescales values of the program
so that they are valid operands.
"""

from control_families import CONTROL
from elementwise_families import ELEMENTWISE
from index_families import INDICES
from linear_families import LINEAR
from other_families import OTHERS
from reduction_families import REDUCTIONS
from shape_families import SHAPES
from window_families import WINDOWS

FAMILIES = (*ELEMENTWISE, *CONTROL, *SHAPES, *REDUCTIONS, *INDICES, *WINDOWS, *LINEAR, *OTHERS)
