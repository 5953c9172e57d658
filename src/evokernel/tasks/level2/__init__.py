"""One hundred sequences of operators, each worth one fused kernel: a convolution or a matrix product and what follows it."""
