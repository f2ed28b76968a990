"""Reading all chunks at once, with a derivative that keeps what goes into a layer and nothing else.

Autograd would keep every product, `X Wᵀ` only for the sake of β. But the derivative with respect to
β_t, which is `d_y_t · (W x_t)`, is also `(Wᵀ d_y_t) · x_t`, and `d_y W` is needed in any case.

`d_x` is the derivative of whatever is being minimised with respect to x.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from minititans.memory.fast.derivatives import call, dot
from minititans.memory.gates import Products
from minititans.memory.network import join
from minititans.memory.state import Layers
from minititans.precision import in_full_precision


def read(
    x: Tensor, P: Products, W: Layers, S: Layers, A: Layers, E: Layers, residual: bool
) -> Tensor:
    """The plain form's, from tensors `[rows·n, …]`."""
    for layer, learned in enumerate(zip(W, S, A, E)):
        y = call(_ReadLayer, x, P.G, P.f, P.beta, *learned)
        x = join(x, F.silu(y), residual) if layer + 1 < len(W) else y
    return x


class _ReadLayer(Function):
    """`β ⊙ (X Wᵀ) + f ⊙ (X Sᵀ) + (G ⊙ (X Aᵀ)) E`"""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, G, f, beta, W, S, A, E) -> Tensor:
        y = torch.addcmul(beta * torch.bmm(x, W.mT), f, torch.bmm(x, S.mT))
        return torch.baddbmm(y, G * torch.bmm(x, A.mT), E)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @in_full_precision
    def backward(ctx, d_y: Tensor) -> tuple[Tensor, ...]:
        x, G, f, beta, W, S, A, E = ctx.saved_tensors
        xA, d_yE = torch.bmm(x, A.mT), torch.bmm(d_y, E.mT)  # [rows·n, b, b]
        d_yW, d_yS, d_xA = torch.bmm(d_y, W), torch.bmm(d_y, S), G * d_yE
        d_x = torch.addcmul(beta * d_yW, f, d_yS).baddbmm_(d_xA, A)
        d_W, d_S = torch.bmm((beta * d_y).mT, x), torch.bmm((f * d_y).mT, x)
        d_A, d_E = torch.bmm(d_xA.mT, x), torch.bmm((G * xA).mT, d_y)
        return d_x, xA * d_yE, dot(x, d_yS), dot(x, d_yW), d_W, d_S, d_A, d_E
