"""Derivatives of programs. The functions take a program and return its derivative.

    products.py     jvp, vjp, grad: products of the Jacobian with tangents or cotangents; seeds.py has their seeds
    jacobians.py    jacobian, hessian, laplacian, and batched, which maps a derivative over a dimension (vmap)
    modes.py        chooses forward mode, reverse mode, or both through a bottleneck, for the blocks of a Jacobian
    blocks.py       a block of a Jacobian: one output by one input, for all basis vectors
    coloured.py     sparse Jacobians, whose columns share seeds by colour
    results.py      the form of a derivative: whole, a diagonal, or nonzeros of a compressed sparse matrix
    optimization.py hvp, laplacian, lagrangian, gauss_newton, second_directional; gauss_newton.py has the matrices
    jets.py         jet, derivatives, flow: Taylor mode
    tensors.py      tensor: all partial derivatives up to an order, from Taylor coefficients
    together.py     several programs from one file, such as derivatives, as one program

A derivative is a program, or the inputs and outputs (`Port`) of a program. The stages in `passes/` transform graphs.
This folder calls the stages, names the inputs of derivatives, and sets their seeds. The methods of `Program` call this
folder.
"""
