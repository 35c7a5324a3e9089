"""Random valid StableHLO programs. A seed determines each program.

One program in ten has nested control flow over scalars and pairs (`control_flow_random.py`), and one in ten has dynamic
shapes (`dynamic_programs.py`). The others are composed of ops of all families (`families.py`). Element types are f64
and complex<f64>, so that the derivatives can be compared with central differences.
"""

from random import Random

from cases.control_flow_random import program as control_flow
from composer import composed
from dynamic_programs import DynamicProgram
from families import FAMILIES


def program(seed: int) -> str:
    """Returns the text of a module with a public function `main`, for a seed."""
    random = Random(seed)
    kind = seed % 10
    if kind == 3:
        return control_flow(random.randrange)
    if kind == 7:
        return DynamicProgram(random).text
    return composed(random, FAMILIES)
