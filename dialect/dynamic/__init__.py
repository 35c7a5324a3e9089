"""Analyzes dynamic dimensions: which sizes determine the sizes of results, and which sizes each op requires.

    results.py                  formulas for the sizes of results; extends ../shapes/origins.py
    known.py                    sizes of one value in terms of the sizes of other values
    required.py, bounds.py      the relations between sizes that each op requires
    checks.py, forms.py         which of these relations a program must check when it runs, and before which op
    calls.py                    replaces JAX's custom calls for dynamic sizes by static ops

To support dynamic dimensions in an op, fill in the column `sizes` of the op's row in ../ops/traits.py. If the column
says `formula`, add the formula to ../shapes/origins.py or results.py. Add further requirements to bounds.py.
"""
