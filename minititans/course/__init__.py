"""What the course in `notebooks/` needs beside the library."""

from minititans.course.claims import ClaimError, claim, does_not_reproduce

__all__ = ["ClaimError", "claim", "does_not_reproduce"]
