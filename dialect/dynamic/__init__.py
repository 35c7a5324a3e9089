"""Analysis of dynamic dimensions: where sizes come from, and what ops require of them.

    results.py                  where each dimension of a result comes from; extends ../shapes/origins.py
    known.py                    sizes of one value in terms of another's
    required.py, bounds.py      the relations between sizes that each op requires
    checks.py, forms.py         which of these relations a program must check when it runs, and before which op
    calls.py                    JAX's calls for dynamic sizes, replaced by static ops

To support dynamic dimensions in an op, fill its column `sizes` in ../ops/traits.py. If the column says `formula`, add
the formula to ../shapes/origins.py or results.py. Add further requirements to bounds.py.
"""
