"""Training steps: a model, its loss, the gradient and the update of its parameters, as one program.

losses         a model and a loss to a program with one scalar
optimizers     the update of a parameter, given its gradient
step           both, around a gradient; the parameters are updated in place
"""
