"""Replaces the operators of ai.onnx.ml, which represent scikit-learn models, by operators of ai.onnx.

    outputs   drops outputs of strings and dead nodes, and turns maps of probabilities into arrays
    replace   replaces each node; its attributes become initializers, so that they are weights
    linear    scalers, encoders, and linear models
    svm       support vector machines
    trees     ensembles of trees
    scores    transforms of scores, and labels

The replacement precedes the other steps of the import. Decisions of trees have derivative zero.
"""
