"""Replaces the operators of ai.onnx.ml, the ONNX of scikit-learn, by operators of ai.onnx.

    outputs   leaves out outputs of strings, turns maps of probabilities into arrays, and drops dead nodes
    replace   replaces each node, with its attributes as initializers, so that they are weights
    linear    scalers, encoders, and linear models
    svm       support vector machines
    trees     ensembles of trees
    scores    transforms of scores, and labels

The replacement precedes the other steps of the import. Decisions of trees have derivative zero.
"""
