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


def check_clip(clip: float | None) -> None:
    if clip is not None and not _is_positive(clip):
        raise ValueError(f"clip: got {clip!r}, expected a positive number, or None for no clipping")


def check_theta_max(theta_max: float) -> None:
    if not _is_positive(theta_max):
        raise ValueError(f"theta_max: got {theta_max!r}, expected a positive number")


def _is_positive(number: float) -> bool:
    real = isinstance(number, (int, float)) and not isinstance(number, bool)
    return real and 0 < number < float("inf")
