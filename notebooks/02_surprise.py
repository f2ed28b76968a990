# %% [markdown]
# # Surprise is a gradient
#
# **Question:** how should a memory change when it was wrong, and why call that *surprise*?
#
# **You will build:** the delta rule, by hand, from one loss and its gradient; then the stepper, in
# which you watch a memory token by token.
#
# **Time:** about 10 s on 2 cores.
#
# **You need:** [01 A matrix that remembers](01_matrix_memory.ipynb); what a derivative
# is.

# %%
import torch

from minititans.course import claim
from minititans.viz.recall import crosstalk, random_pairs
from minititans.viz.stepper import STORY, draw_surprise, step_through, stepper, story
from minititans.viz.writing import delta_error, draw_comparison, draw_overwrite, overwrite

# %% [markdown]
# ## Hebb blends
#
# Somebody moves house. The same key, their name, now has a new value, their address. A Hebbian
# memory adds the new pair to the old one, and when asked, answers with the sum of both.

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
# (The ½ is the appendix's. It saves us a 2 in a moment.)


# %%
def loss(M, k, v):
    return (M @ k - v).square().sum() / 2


print(f"a memory that is asked for the new address: loss {loss(M, k, new):.1f}")
print(f"an empty one:                               loss {loss(0 * M, k, new):.1f}")

# %% [markdown]
# Having added two addresses, the memory is as wrong as one that knows nothing.
#
# ## The gradient by hand
#
# In which direction should $M$ change? The entry $M_{ij}$ touches only row $i$ of the answer,
# where it is multiplied by $k_j$. So its derivative is the error of row $i$ times $k_j$:
#
# $$\frac{\partial \ell}{\partial M_{ij}} = (Mk - v)_i\, k_j \qquad\text{that is}\qquad
# \nabla \ell = (M k - v)\, k^\top$$
#
# An outer product, as Hebb's, but with the *error* in place of the value.


# %%
def surprise(M, k, v):
    return torch.outer(M @ k - v, k)  # [dim of value, dim of key]


def surprise_by_autograd(M, k, v):
    return torch.func.grad(loss)(M, k, v)


u = surprise(M, k, new)
u.shape


# %%
def random_memory(seed):
    (k, _), (v, _) = random_pairs(2, d, seed)
    return torch.randn(d, d, generator=torch.Generator().manual_seed(seed)), k, v


claim(
    "the gradient of the associative loss is error times key: autograd finds the same",
    all(
        torch.allclose(
            surprise(*random_memory(s)), surprise_by_autograd(*random_memory(s)), atol=1e-5
        )
        for s in range(5)
    ),
    "equations (12) and (33)",
)

# %% [markdown]
# This matrix is what the paper calls the **momentary surprise**. Its size is
# $\|Mk - v\|\,\|k\|$, and with keys of length 1 that is just the length of the error: a memory is
# surprised exactly as much as it was wrong.

# %%
claim(
    "with a key of norm 1 the gradient's norm is the error's norm",
    all(
        torch.isclose(surprise(M, k, v).norm(), (M @ k - v).norm(), rtol=1e-4)
        for M, k, v in map(random_memory, range(5))
    ),
    "section 3.1",
)

# %% [markdown]
# ## One step against it
#
# A step against the gradient makes the loss smaller. `theta` is the size of the step:
#
# $$M \leftarrow M - \theta\, \nabla\ell = M + \theta\,(v - Mk)\,k^\top$$
#
# That is equation (8) of the paper for a matrix, and much older: the **delta rule** of Widrow and
# Hoff. What does it do to the error? Multiply by $k$ and use $k^\top k = 1$:
#
# $$v - M_{\text{new}} k = (v - Mk) - \theta\,(v - Mk) = (1 - \theta)\,(v - Mk)$$


# %%
def delta(M, k, v, theta):
    return M - theta * surprise(M, k, v)


M, k, v = random_memory(0)
before = (v - M @ k).norm()
for theta in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5):
    after = (v - delta(M, k, v, theta) @ k).norm()
    print(f"theta = {theta}: the error is {after / before:.1f} of what it was")

# %%
claim(
    "one step leaves |1 − theta| of the error: none at theta = 1, and more than before above 2",
    all(
        torch.isclose(
            (v - delta(M, k, v, theta) @ k).norm() / before, torch.tensor(abs(1 - theta)), atol=1e-4
        )
        for theta in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
    ),
    "equation (8)",
)

# %% [markdown]
# With `theta = 1` a pair that was just written is recalled perfectly, whatever was in the memory
# before. So the delta rule *overwrites* where Hebb blends. The same person moves house again:

# %%
draw_overwrite(overwrite(dim=d, seed=0))

# %%
results = [overwrite(dim=d, seed=seed) for seed in range(5)]
claim(
    "a key with a new value: the delta rule answers with the new one, Hebb with old plus new",
    all(
        torch.allclose(r.delta, r.new, atol=1e-5)
        and torch.allclose(r.hebb, r.old + r.new, atol=1e-5)
        for r in results
    ),
    "equations (4) and (8)",
)

# %% [markdown]
# ## The library gives the same
#
# Multiplied out, the rule reads $M\,(I - \theta\,k k^\top) + \theta\,v k^\top$: erase what stands
# under this key, then write. In this form it is **DeltaNet**, equation (34). The loop below is
# yours; the library has it as the memory with one layer and as one of the relatives.

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
_, state, trace = sequential(k, k, v, gates, start, chunk_size=1, trace=True)
_, S = loop(deltanet(k, k, v, beta=gates.theta))

claim(
    "closed form, autograd and DeltaNet are one rule: your loop, the library's memory with "
    "eta = alpha = 0, and its DeltaNet end with the same matrix",
    torch.allclose(M, state.weights[0][0, 0], atol=1e-5) and torch.allclose(M, S[0, 0], atol=1e-5),
    "equations (8) and (34)",
)

# %% [markdown]
# ## What is known surprises no more
#
# Now a story of 24 tokens. `A1` is a pair with key A and value 1. The pairs A1, B2, C3 come
# again and again. Then there is a new one, D4. Later A gets another value, A5. How surprised is the
# memory?

# %%
keys, values = story(dim=32, seed=0)
steps = step_through(keys, values, STORY, theta=0.9, eta=0.0, alpha=0.0)
draw_surprise(steps)

# %% [markdown]
# The first round is all news. By the third, hardly anything is. The novel D4 jumps, and so does
# A5: a *known key* with an *unexpected value* surprises most of all, because the memory has to take
# back what it believed. Surprise is small where the memory need not change.


# %%
def surprises(seed):
    keys, values = story(dim=32, seed=seed)
    return step_through(keys, values, STORY, theta=0.9, eta=0.0, alpha=0.0).surprise


runs = [surprises(seed) for seed in range(5)]
claim(
    "the surprise of a repeated pair falls: in the third round under a third of the first",
    all(s[6:9].mean() < s[0:3].mean() / 3 for s in runs),
    "section 3.1",
)
claim(
    "a novel pair, or a known key with a new value, surprises over twice as much as the one before",
    all(s[9] > 2 * s[8] and s[14] > 2 * s[13] for s in runs),
    "section 3.1",
)

# %% [markdown]
# ## It also holds more
#
# In notebook 01 cross-talk was the price of a matrix: $(n-1)/d$. The delta rule asks before it
# writes, so it sees the cross-talk as error and corrects it. Reading the pairs again helps: where
# Hebb would write everything twice, delta writes only what is still missing.

# %%
draw_comparison(dim=32, counts=(1, 8, 16, 24, 32, 40, 48), passes=(1, 10))

# %%
shares = [  # of Hebb's error, for five seeds and two dimensions: [after 1 reading, after 10]
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
# ## The stepper
#
# The paper's full rule has two more gates, which the next two notebooks are about: past surprise
# lives on in $S$ with `eta`, and the memory fades with `alpha`.
#
# $$S_t = \eta\,S_{t-1} - \theta\,\nabla\ell(M_{t-1}; k_t, v_t)$$
#
# $$M_t = (1-\alpha)\,M_{t-1} + S_t$$
#
# Press play, or move the token. Orange is above zero, blue below.
#
# 1. It begins at A5 (token 15). See the error: it holds the new value *and* minus the old one.
# 2. Set `theta` to 0.5, then to 1.5. Both leave half of an error. What is different about the half
#    that is left when A1 comes again (token 4)?
# 3. Raise `eta` to 0.9. What happens to $M$ after a surprise is over?
# 4. Raise `alpha` to 0.5. Which surprises stay high forever, and why?

# %%
stepper()

# %% [markdown]
# **What to take away**
#
# - The associative loss asks one thing: does this key bring back this value?
# - Its gradient is *error times key*. That matrix is the momentary surprise, and its size is how
#   wrong the memory was.
# - A step against it is the delta rule. It overwrites where Hebb blends, writes nothing
#   where nothing is wrong, and corrects cross-talk.
# - A step `theta` leaves $|1 - \theta|$ of the error. Above 2 it makes things worse.
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
