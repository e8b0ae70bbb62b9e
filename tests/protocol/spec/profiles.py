"""A calibration profile as an operator would write it."""

from dataclasses import replace

from touchstone.protocol.spec.calibration_profile import (
    PROFILE_VERSION,
    QUANTITIES,
    Measurement,
    Profile,
    Subject,
)

SUBJECT = Subject("ab" * 32, "float32", 1000, 40, 10)


def make_profile(number: int = 1, **changes: object) -> Profile:
    measurements = tuple(
        Measurement(quantity, kind, "middle", 30, tuple((place + 1) * step << 44 for step in range(1, 6)))
        for place, quantity in enumerate(QUANTITIES)
        for kind in ("head", "norm")
    )
    profile = Profile(
        version=PROFILE_VERSION,
        operator=f"0x{number:040x}",
        subject=SUBJECT,
        machine=f"machine {number}",
        libraries="torch",
        configurations=tuple(f"machine {number}: {kind}" for kind in "abcd"),
        segments=32,
        floors=(10, 20, 30),
        measurements=measurements,
    )
    return replace(profile, **changes)  # type: ignore[arg-type]
