"""Attention as a short-term memory: causal, in a sliding window, or in MAC's segments.

masks        which query may see which key, as small functions, so that they can be tested and drawn
rotary       positions, as rotations
projections  queries, keys and values from a sequence, and back to one
window       causal attention and the sliding window, with or without a prefix
segment      MAC's segments
watching     the weights of every attention layer inside a model
"""

from minititans.attention.masks import segment_mask, window_mask
from minititans.attention.projections import Projections
from minititans.attention.rotary import rotate
from minititans.attention.segment import SegmentAttention, SegmentState
from minititans.attention.watching import watch_attention
from minititans.attention.window import WindowAttention, WindowState, window_attention

__all__ = [
    "Projections",
    "SegmentAttention",
    "SegmentState",
    "WindowAttention",
    "WindowState",
    "rotate",
    "segment_mask",
    "watch_attention",
    "window_attention",
    "window_mask",
]
