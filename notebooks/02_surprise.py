# %% [markdown]
# # Surprise is a gradient
#
# **Question:** how should a memory change when it is wrong, and why call that *surprise*?
#
# **You will build:** the delta rule, by hand, from one loss and its gradient. You will watch it
# move a memory that is small enough to see, and train it from outside.
#
# **Time:** about 10 s to run on 2 cores, 25 minutes to read.
#
# **You need:** [01 A matrix that remembers](01_matrix_memory.ipynb); what a derivative
# is.

# %%
import torch

from minititans.course import claim
from minititans.experiments.hebbian import crosstalk, random_pairs
from minititans.experiments.plane import falls_by_the_cosine
from minititans.experiments.stepping import STORY, step_through, story
from minititans.experiments.two_loops import reading_loss
from minititans.experiments.writing import delta_error, overwrite
from minititans.viz.loop import draw_loop
from minititans.viz.plane import plane_explorer
from minititans.viz.stepper import draw_surprise, stepper
from minititans.viz.writing import draw_comparison, draw_overwrite

# %% [markdown]
# In the picture of the whole, this notebook is about the path from a prediction to a write.

# %%
draw_loop("prediction", "error", "surprise", "memory")

# %% [markdown]
# ## Hebb blends
#
# Someone moves house. The same key, their name, now has a new value, their address. A Hebbian
# memory adds the new pair to the old one and, when asked, answers with the sum of both.

# %%
d = 12
(k, _), (old, new) = random_pairs(2, d, seed=0)  # one key, two values

M = torch.zeros(d, d)
M = M + torch.outer(old, k)
M = M + torch.outer(new, k)
answer = M @ k
print("the answer is old + new:", torch.allclose(answer, old + new, atol=1e-5))

# %% [markdown]
# ## Ask first
#
# A better memory asks itself before it writes: *what would I have answered?* Asking is a product
# and changes nothing (15). How wrong the answer was is a number, the **associative loss** (12):
#
# $$\ell(M; k, v) = \tfrac12\,\|M k - v\|^2$$
#
# (The ½ is from the paper's appendix. It saves us a 2 in a moment.)


# %%
def loss(M, k, v):
    return (M @ k - v).square().sum() / 2


print(f"the memory with both addresses: loss {loss(M, k, new):.1f}")
print(f"an empty memory:                loss {loss(0 * M, k, new):.1f}")

# %% [markdown]
# Asked for the new address, the memory that added both is as wrong as one that knows nothing.
#
# ## The gradient by hand
#
# In which direction should $M$ change? The entry $M_{ij}$ affects only row $i$ of the answer,
# where it is multiplied by $k_j$. So its derivative is the error of row $i$ times $k_j$:
#
# $$\frac{\partial \ell}{\partial M_{ij}} = (Mk - v)_i\, k_j \qquad\text{that is}\qquad
# u = \nabla \ell = (M k - v)\, k^\top$$
#
# It is an outer product like Hebb's, but with the *error* in place of the value.


# %%
def surprise(M, k, v):
    return torch.outer(M @ k - v, k)  # [dim of value, dim of key]


u = surprise(M, k, new)
by_autograd = torch.func.grad(loss)(M, k, new)
print("the same as autograd's:", torch.allclose(u, by_autograd, atol=1e-5))


# %% tags=["hide-source"]
# What was checked: five random memories
def random_memory(seed):
    (k, _), (v, _) = random_pairs(2, d, seed)
    return torch.randn(d, d, generator=torch.Generator().manual_seed(seed)), k, v


cases = [random_memory(seed) for seed in range(5)]
claim(
    "the gradient of the associative loss is error times key: autograd finds the same",
    all(torch.allclose(surprise(*c), torch.func.grad(loss)(*c), atol=1e-5) for c in cases),
    "equations (12) and (33)",
)
claim(
    "with a key of norm 1 the gradient's norm is the error's norm",
    all(
        torch.isclose(surprise(M, k, v).norm(), (M @ k - v).norm(), rtol=1e-4) for M, k, v in cases
    ),
    "section 3.1",
)

# %% [markdown]
# The paper calls this matrix $u$ the **momentary surprise**. Its size is $\|Mk - v\|\,\|k\|$, and
# with keys of length 1 that is just the length of the error: a memory is surprised exactly as much
# as it was wrong.
#
# ## One step against it
#
# A step against the gradient makes the loss smaller. `theta` is the size of the step:
#
# $$M \leftarrow M - \theta\, u = M + \theta\,(v - Mk)\,k^\top$$
#
# That is equation (8) of the paper for a matrix, and it is much older than the paper: the **delta
# rule** of Widrow and Hoff. What does it do to the error? Multiply by $k$ and use $k^\top k = 1$:
#
# $$v - M_{\text{new}} k = (v - Mk) - \theta\,(v - Mk) = (1 - \theta)\,(v - Mk)$$
#
# **Predict first.** Which `theta` leaves no error at all? Which leaves half of it? (There are two.)
# Above which `theta` is the memory more wrong after the write than before?


# %% tags=["predict"]
def delta(M, k, v, theta):
    return M - theta * surprise(M, k, v)


before = (new - M @ k).norm()  # of the memory that holds both addresses
left = {}
print("what is left of the error")
for theta in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5):
    left[theta] = float((new - delta(M, k, new, theta) @ k).norm() / before)
    print(f"theta = {theta}: {left[theta]:.1f} times what it was")

# %%
claim(
    "one step leaves |1 − theta| of the error: none at theta = 1, and more than before above 2",
    all(abs(left[theta] - abs(1 - theta)) < 1e-4 for theta in left),
    "equation (8)",
)

# %% [markdown]
# With `theta = 1`, a pair that was just written is recalled perfectly, whatever was in the memory
# before. So the delta rule *overwrites* where Hebb blends. The same person moves house again:

# %%
draw_overwrite(overwrite(dim=d, seed=0))

# %% tags=["hide-source"]
# What was checked: five people who move
moves = [overwrite(dim=d, seed=seed) for seed in range(5)]
claim(
    "a key with a new value: the delta rule answers with the new one, Hebb with old plus new",
    all(
        torch.allclose(r.delta, r.new, atol=1e-5)
        and torch.allclose(r.hebb, r.old + r.new, atol=1e-5)
        for r in moves
    ),
    "equations (4) and (8)",
)

# %% [markdown]
# ## A memory you can watch
#
# In two dimensions nothing is hidden. Keys and values are arrows, and the matrix $M$ is fully
# described by what it does to the unit circle. Two pairs are read in turn, A1 and B2, until A gets
# a new value, 3.
#
# **Predict first.** The keys A and B are 60° apart. When only A1 has been written, what does $M$ do
# to the circle? When B2 is written next, what happens to the answer to A?

# %% tags=["predict"]
plane_explorer()

# %% [markdown]
# Press play. One pair alone squashes the circle onto a line: whatever you ask, the answer points
# along value 1. The picture starts when B2 has just been written: the answer to B is right, and the
# answer to A has been pushed aside. That is cross-talk, and you can see where it comes from: a
# write moves the answer to another key by `theta` times the error times the *cosine of the angle*
# between the two keys.
#
# 1. Set the angle to 90°, then to 15°. How many rounds does the memory need?
# 2. Choose Hebb. What happens to the circle?
# 3. Go back to delta and set `theta` to 1.5, then to 2. Who wins?

# %%
claim(
    "with theta = 1, two pairs read in turn: from the second on, each error is the one before "
    "times the cosine of the angle between the keys",
    falls_by_the_cosine(angles=(30, 45, 60, 75)),
    "equation (8)",
)

# %% [markdown]
# ## What it knows no longer surprises it
#
# Now a story of 24 tokens in 32 dimensions. The pairs A1, B2, C3 come again and again. Then a new
# one appears, D4. Later A gets a different value: A5.
#
# **Predict first.** Draw one bar per token for the surprise:
# A1 B2 C3 · A1 B2 C3 · A1 B2 C3 · D4 · A1 B2 C3 D4 · A5 B2 C3 · A5 B2 C3 · D4 · A5 B2 C3.
# Which bar is the tallest, and why?

# %% tags=["predict"]
keys, values = story(dim=32, seed=0)
steps = step_through(keys, values, STORY, theta=0.9, eta=0.0, alpha=0.0)
draw_surprise(steps)

# %% [markdown]
# The first round is all news. By the third, hardly anything is. The unknown D4 stands out, and A5
# even more: a *known key* with an *unexpected value* is the greatest surprise, because the memory
# must take back what it believed. Surprise is small where nothing needs to change.

# %% tags=["hide-source"]
# What was checked: the story with five sets of random directions
runs = [
    step_through(*story(dim=32, seed=seed), STORY, theta=0.9, eta=0.0, alpha=0.0).surprise
    for seed in range(5)
]
claim(
    "the surprise of a repeated pair falls: in the third round under a third of the first",
    all(s[6:9].mean() < s[0:3].mean() / 3 for s in runs),
    "section 3.1",
)
claim(
    "a novel pair, or a known key with a new value, surprises over twice as much as the token "
    "before it",
    all(s[9] > 2 * s[8] and s[14] > 2 * s[13] for s in runs),
    "section 3.1",
)

# %% [markdown]
# ## Two loops
#
# You have just done gradient descent, and yet you have not trained anything. There are two loops of
# learning here, one inside the other, and keeping them apart makes the rest of the course easy.
#
# |  | inner loop: reading | outer loop: training |
# | --- | --- | --- |
# | one step is | one token | one batch of sequences |
# | it follows | the gradient of $\ell$, the surprise $u$ | the gradient of the task's loss |
# | it changes | $M$, and soon $S$ | how k, v and q are made; the gates; where $M$ starts |
# | it runs | whenever the model reads | once, before the model is used |
# | for a new text | it starts over from the same $M$ | nothing changes |
#
# In the picture, blue is the inner loop and orange is the outer one.

# %%
draw_loop("projections", "gates", "start", "momentum", "memory")

# %% [markdown]
# Here is the smallest example with both: the inner loop reads 8 pairs twice, and the outer loop
# learns a single number, `theta`. The trick is that reading is made of differentiable operations,
# so `backward` goes through all 16 writes.


# %%
def train(first_seed, sequences=30):
    theta = torch.tensor(0.1, requires_grad=True)
    optimiser = torch.optim.Adam([theta], lr=0.05)
    for seed in range(first_seed, first_seed + sequences):  # outer loop: one sequence after another
        keys, values = random_pairs(8, 16, seed)
        M, wrong = torch.zeros(16, 16), 0.0  # every sequence starts over
        for k, v in zip(keys.repeat(2, 1), values.repeat(2, 1)):  # inner loop: token by token
            wrong = wrong + loss(M, k, v)
            M = delta(M, k, v, theta)
        optimiser.zero_grad()
        wrong.backward()
        optimiser.step()
    return theta.item()


learned = [train(first_seed) for first_seed in (0, 100, 200)]
print("theta after each of three training runs:", ", ".join(f"{theta:.2f}" for theta in learned))

# %% tags=["hide-source"]
# What was checked: the learned values against fifteen others, on new sequences
tried = torch.linspace(0.1, 1.5, 15)
costs = reading_loss(torch.cat([tried, torch.tensor(learned)]))  # on new sequences
claim(
    "training through the reading finds a theta that is within 3 % of the best of fifteen, "
    "on sequences that it has not seen",
    (costs[15:] <= 1.03 * costs[:15].min()).all(),
    "section 3.1",
)

# %% [markdown]
# It does not learn `theta = 1`. A step of 1 makes the latest pair perfect but disturbs the others
# through cross-talk; a smaller step is a better compromise *for sequences like these*. That is what
# the outer loop is for: it does not learn the pairs, it learns **how to learn** them. From here on,
# `theta` is a gate that can choose a new value for each token.
#
# ## The stepper
#
# The paper's full rule has two more gates, the subjects of the next two notebooks: with `eta`, past
# surprise lives on in $S$; with `alpha`, the memory fades.
#
# $$S_t = \eta\,S_{t-1} - \theta\,u_t \qquad\qquad M_t = (1-\alpha)\,M_{t-1} + S_t$$
#
# Press play, or move the token. Orange is above zero, blue below.
#
# 1. It starts at A5 (token 15). Look at the error: it contains the new value *and* minus the old
#    one.
# 2. Set `theta` to 0.5, then to 1.5. Both leave half of an error. How do the two halves differ when
#    A1 comes again (token 4)?
# 3. Raise `eta` to 0.9 and watch the scale of the bars. What happens to $M$ after a surprise is
#    over? (Notebook 03 is about this.)
# 4. Set `eta` back to 0 and raise `alpha` to 0.5. Which surprises never become small, and why?

# %%
stepper()

# %% [markdown]
# ## Deeper (optional): the delta rule in the library
#
# Multiplied out, the rule reads $M\,(I - \theta\,k k^\top) + \theta\,v k^\top$: erase what is
# stored under this key, then write. In this form it is **DeltaNet**, equation (34). The loop below
# is yours; the library has it twice, as the memory with one layer and as one of its relatives. (A
# memory of one layer *is* that layer's matrix, which is why its state is called `weights`. From
# notebook 05 on, $W$ is a layer's matrix and $M$ the memory as a whole.)

# %%
keys, values = random_pairs(20, 16, seed=1)
M = torch.zeros(16, 16)
for k, v in zip(keys, values):
    M = delta(M, k, v, theta=0.7)

# %%
from minititans.memory import Gates, MemoryState, sequential
from minititans.relatives import loop
from minititans.relatives.settings import deltanet

k, v = keys[None, None], values[None, None]  # [batch, heads, time, dim]
gates = Gates.constant(theta=0.7, eta=0.0, alpha=0.0, shape=(1, 1, 20))
start = MemoryState.start([torch.zeros(1, 16, 16)], batch=1)
_, state = sequential(k, k, v, gates, start, chunk_size=1)
_, relative = loop(deltanet(k, k, v, beta=gates.theta))
ends = [state.weights[0][0, 0], relative[0, 0]]
claim(
    "closed form, autograd and DeltaNet are one rule: your loop, the library's memory with "
    "eta = alpha = 0, and its DeltaNet end with the same matrix",
    all(torch.allclose(M, end, atol=1e-5) for end in ends),
    "equations (8) and (34)",
)

# %% [markdown]
# ## Deeper (optional): it also holds more
#
# In notebook 01 cross-talk was the price of a matrix: $(n-1)/d$. The delta rule asks before it
# writes, so it sees the cross-talk as error and corrects it. Reading the pairs again helps: where
# Hebb would write everything twice, delta writes only what is still missing.

# %%
draw_comparison(dim=32, counts=(1, 8, 16, 24, 32, 40, 48), passes=(1, 10))

# %% tags=["hide-source"]
# What was checked: two values of d, five seeds each
shares = [  # of Hebb's error, for five seeds and two values of d: [after 1 reading, after 10]
    [delta_error(d // 2, d, passes, (seed,)) / crosstalk(d // 2, d) for passes in (1, 10)]
    for d in (32, 64)
    for seed in range(5)
]
claim(
    "with d/2 pairs the delta rule's error is under 80 % of Hebb's after one reading, "
    "and under 2 % after ten",
    all(once < 0.8 and ten_times < 0.02 for once, ten_times in shares),
    "equation (8)",
)

# %% [markdown]
# **What to take away**
#
# - The associative loss asks one thing: does this key bring back this value?
# - Its gradient is *error times key*. That matrix is the momentary surprise $u$, and its size is
#   how wrong the memory was.
# - A step against it is the delta rule. It overwrites where Hebb blends, writes nothing
#   where nothing is wrong, and corrects cross-talk.
# - A step `theta` leaves $|1 - \theta|$ of the error. Above 2 it makes things worse.
# - Reading is the inner loop and changes $M$. Training is the outer loop and changes how $M$ is
#   changed.
#
# **Exercise:** [Surprise](../exercises/02_surprise.ipynb): derive a gradient and check it.
#
# **In the paper:** section 3.1, equations (8) and (12), and appendix C, (33) and (34), of [Titans:
# Learning to Memorize at Test Time](https://arxiv.org/abs/2501.00663). In the library:
# [`loss`](../minititans/memory/network.py),
# [`errors_below`](../minititans/memory/network.py),
# [`sequential`](../minititans/memory/sequential.py) and
# [`deltanet`](../minititans/relatives/settings.py).
#
# **Next:** [Surprise that lingers](03_momentum.ipynb)
