import custom_ops_lib
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return custom_ops_lib.scaled(x)
