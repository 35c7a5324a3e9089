"""Compares the compiled VJP of a PyTorch module with PyTorch's gradients. Needs: pip install 'tiduc[torch]'."""

import numpy as np
import torch

import tiduc

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
program = tiduc.from_torch(model, (torch.ones(2, 3),), lift_constants=True)
vjp = program.vjp(list(program.weights)).compile()

x, ct = torch.randn(2, 3), torch.randn(2, 4)
y, *slopes = vjp(*program.arguments(x.numpy()), ct.numpy())
model(x).backward(ct)
for (name, parameter), slope in zip(model.named_parameters(), slopes, strict=True):
    print(name, slope.shape, np.allclose(slope, parameter.grad, atol=1e-6))
