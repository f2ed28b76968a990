"""Refuse settings that make no sense, by their names. Without torch, which `--help` can spare."""


def check_positive(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{name}: got {number!r}, expected a whole number of at least 1")


def check_count(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"{name}: got {number!r}, expected a whole number of at least 0")


def check_switch(name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: got {value!r}, expected True or False")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}: got {value!r}, expected one of {', '.join(map(repr, choices))}")


def check_memory(
    depth: int, expansion: int, chunk_size: int, momentum: bool, forgetting: bool, conv: int,
    gates: str, theta_max: float, clip: float | None, residual_norm: bool,
) -> None:  # fmt: skip
    """The settings of a memory, wherever they are given."""
    for name, number in {"depth": depth, "expansion": expansion, "chunk_size": chunk_size}.items():
        check_positive(name, number)
    if depth > 4:
        raise ValueError(f"depth: got {depth}, expected 1 to 4")
    switches = {"momentum": momentum, "forgetting": forgetting, "residual_norm": residual_norm}
    for name, value in switches.items():
        check_switch(name, value)
    check_count("conv", conv)
    check_choice("gates", gates, ("token", "chunk"))
    if not _is_positive(theta_max):
        raise ValueError(f"theta_max: got {theta_max!r}, expected a positive number")
    check_clip(clip)


def check_clip(clip: float | None) -> None:
    if clip is not None and not _is_positive(clip):
        raise ValueError(f"clip: got {clip!r}, expected a positive number, or None for no clipping")


def _is_positive(number: float) -> bool:
    real = isinstance(number, (int, float)) and not isinstance(number, bool)
    return real and 0 < number < float("inf")
