"""The colours of every figure, in one place: people with any colour vision tell them apart."""

# Okabe and Ito's palette, in an order in which neighbours differ in lightness too.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
COLOURS = [BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK]

# From letters to paper.
INK, GREY, FAINT, PALE, PAPER, WHITE = (
    "#222222", "#666666", "#AAAAAA", "#D9D9D9", "#F4F4F4", "#FFFFFF",
)  # fmt: skip
# Blue for what is over, behind the token that is being read, and behind what the memory learns.
PAST_BLUE, NOW_BLUE, LIGHT_BLUE = "#8FBAD6", "#E8F1F8", "#E6F0F7"
