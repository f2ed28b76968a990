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
    gates: str, exact: bool, residual: bool,
    theta_start: float, eta_start: float, alpha_start: float,
) -> None:  # fmt: skip
    """The settings of a memory, wherever they are given."""
    for name, number in {"depth": depth, "expansion": expansion, "chunk_size": chunk_size}.items():
        check_positive(name, number)
    if depth > 4:
        raise ValueError(f"depth: got {depth}, expected 1 to 4")
    switches = {"momentum": momentum, "forgetting": forgetting}
    for name, value in {**switches, "exact": exact, "residual": residual}.items():
        check_switch(name, value)
    check_count("conv", conv)
    check_choice("gates", gates, ("token", "chunk"))
    starts = {"theta": (theta_start, 1), "eta": (eta_start, 0.7), "alpha": (alpha_start, 1)}
    for name, (number, below) in starts.items():
        if not _is_positive(number) or number >= below:
            raise ValueError(
                f"{name}_start: got {number!r}, expected a number between 0 and {below}"
            )


def _is_positive(number: float) -> bool:
    real = isinstance(number, (int, float)) and not isinstance(number, bool)
    return real and 0 < number < float("inf")
