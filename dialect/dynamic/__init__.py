"""Analysis of dynamic dimensions: which sizes ops require, and emitters of sizes.

    results.py                  where each dimension of a result comes from; extends ../shapes/origins.py
    emitters.py, known.py       ops that take sizes as operands; sizes of one value in terms of another's
    required.py, bounds.py      the relations between sizes that each op requires
    checks.py, forms.py         which of these relations a program must check when it runs, and before which op
    calls.py                    JAX's calls for dynamic sizes, made static

An op with dynamic dimensions needs its column `sizes` in ../ops/traits.py; where that says `formula`, add the formula
to ../shapes/origins.py or results.py, and further requirements to bounds.py.
"""
