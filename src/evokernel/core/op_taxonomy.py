"""Taxonomy of PyTorch calls: maps every call to a kind of computation, for example `linear` to `matmul`."""

from __future__ import annotations

from collections.abc import Iterable

CALLS_BY_KIND = {
    "activation": "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leakyrelu logsigmoid mish prelu relu relu6 rrelu selu "
    "sigmoid silu softplus softshrink softsign swish tanh tanhshrink threshold",
    "softmax": "gumbelsoftmax logsoftmax softmax softmax2d softmin",
    "normalisation": "batchnorm batchnorm1d batchnorm2d batchnorm3d groupnorm instancenorm instancenorm1d instancenorm2d instancenorm3d "
    "layernorm localresponsenorm nativelayernorm normalize rmsnorm syncbatchnorm",
    "matmul": "addbmm addmm addmv baddbmm bilinear bmm chainmatmul dot einsum inner linear matmul mm multidot mv outer tensordot vdot",
    "convolution": "conv1d conv2d conv3d convtranspose1d convtranspose2d convtranspose3d",
    "pooling": "adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d avgpool1d "
    "avgpool2d avgpool3d fractionalmaxpool2d lppool1d lppool2d maxpool1d maxpool2d maxpool3d",
    "scan": "cummax cummin cumprod cumsum logcumsumexp",
    "gather": "embedding embeddingbag gather indexadd indexcopy indexput indexselect maskedfill maskedscatter maskedselect scatter "
    "scatteradd scatterreduce take takealongdim",
    "attention": "multiheadattention scaleddotproductattention",
    "recurrent": "gru grucell lstm lstmcell rnn rnncell",
    "sorting": "argsort kthvalue median mode msort sort topk",
    "resize": "affinegrid gridsample interpolate pixelshuffle pixelunshuffle upsample",
    "quantise": "dequantize fakequantizeperchannelaffine fakequantizepertensoraffine quantizeperchannel quantizepertensor round",
    "reduction": "all amax amin any argmax argmin aminmax countnonzero logsumexp max mean min nanmean nansum norm prod std sum var "
    "vectornorm",
    "loss": "bceloss bcewithlogitsloss binarycrossentropy binarycrossentropywithlogits cosineembeddingloss crossentropy crossentropyloss "
    "ctcloss gaussiannllloss hingeembeddingloss huberloss kldiv kldivloss l1loss marginrankingloss mseloss nllloss poissonnllloss "
    "smoothl1loss softmarginloss tripletmarginloss",
}
KIND_BY_CALL = {word: kind for kind, words in CALLS_BY_KIND.items() for word in words.split()}
"""Kind of a call by its name in lower case without underscores: `nn.MaxPool2d` and `F.max_pool2d` are both `maxpool2d`."""
PYTHON_BUILTINS = frozenset({"all", "any", "max", "min", "sum"})
"""Names that are Python built-ins unless a module or object precedes them."""
CONTRACTIONS = frozenset({"matmul", "convolution", "attention", "recurrent"})
"""Kinds that multiply matrices, where the matrix unit decides the latency."""
PARTS_OF_KIND = {
    "attention": ("matmul", "softmax"),
    "convolution": ("matmul",),
    "recurrent": ("matmul", "activation"),
}
"""Kinds of computation that a kernel of a kind also contains, though its source does not call them."""


def list_needed_kinds(family: str, parts: Iterable[str]) -> list[str]:
    """Return all kinds of computation in an operator with this family and these parts: contractions first, then in order of its source."""
    own_kinds = list(dict.fromkeys([*parts, family]))
    kinds = dict.fromkeys([*own_kinds, *(kind for own_kind in own_kinds for kind in PARTS_OF_KIND.get(own_kind, ()))])
    return sorted((kind for kind in kinds if kind), key=lambda kind: kind not in CONTRACTIONS)
