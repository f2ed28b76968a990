"""The colours of every figure, in one place: people with any colour vision tell them apart."""

# Okabe and Ito's palette, in an order in which neighbours differ in lightness too.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
COLOURS = [BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK]

# For figures with more models than that, which markers and line styles tell apart as well.
MORE_COLOURS = [
    "#999933", "#882255", "#44AA99", "#332288", "#117733", "#661100", "#888888", "#AA4499",
    "#6699CC", "#994F00", "#5D3A9B",
]  # fmt: skip

# From letters to paper.
INK, GREY, DIM, FAINT, EDGE, PALE, MIST, PAPER, WHITE = (
    "#222222", "#666666", "#9A9A9A", "#AAAAAA", "#C8C8C8", "#D9D9D9", "#EEEEEE", "#F4F4F4",
    "#FFFFFF",
)  # fmt: skip
# Blue for what is over, behind the token that is being read, and behind what the memory learns.
PAST_BLUE, NOW_BLUE, LIGHT_BLUE = "#8FBAD6", "#E8F1F8", "#E6F0F7"
# Backgrounds in the tint of a colour, and one line that must be readable on its own tint.
PALE_BLUE, PALE_ORANGE, PALE_GREEN, PALE_RED = "#CFE3F0", "#FBE9C3", "#CBEADF", "#FBE9DD"
LIGHT_ORANGE, LIGHT_GREEN, DARK_ORANGE = "#FDF3DF", "#DDF1E9", "#B87F00"
