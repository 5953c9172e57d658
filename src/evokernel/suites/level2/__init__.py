"""One hundred sequences of operators, each suited to one fused kernel: a convolution or a matrix product and the operators after it."""
