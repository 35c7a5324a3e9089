"""Parts of whole derivatives: blocks, the order of the chain rule, and sparse Jacobians."""
