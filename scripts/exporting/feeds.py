"""Test data that any program can make again, bit for bit.

Value number `i` of input number `k` comes from 64 bits that depend on the seed, `k` and `i` only:

    bits(seed, k, i) = mix(mix(mix(seed) + k) + i)                        (all sums and products modulo 2^64)

    mix(z):  z += 0x9E3779B97F4A7C15                                      (the generator known as splitmix64)
             z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
             z = (z ^ (z >> 27)) * 0x94D049BB133111EB
             return z ^ (z >> 31)

`k` counts a manifest's `inputs` from 0, `i` counts a tensor's values from 0 with the last axis fastest. The kinds:

    normal   the sum of the four 16-bit quarters of `bits`, minus 131070, divided by 37837 in double precision and
             rounded to the input's type: mean 0, variance 1, never beyond 3.47, near enough to a normal distribution
    int      lo + bits % (hi - lo), converted to the input's type
    const    `value` everywhere
    bool     a scalar, `cycle[step % len(cycle)]`: the only kind that depends on the step, which counts from 0
"""

import numpy as np

KINDS = ["normal", "int", "const", "bool"]

_STEP = 0x9E3779B97F4A7C15
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def _mix(z):
    """splitmix64 on an array of 64-bit numbers."""
    z = z + np.uint64(_STEP)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def bits(seed, k, count):
    """The 64 bits of the first `count` values of input `k`."""
    state = _mix(_mix(np.array([seed], np.uint64)) + np.uint64(k))
    return _mix(state + np.arange(count, dtype=np.uint64))


def values(feed, dtype, shape, seed, k, step):
    """The array to feed; `feed` as in a manifest."""
    kind = feed["kind"]
    if kind == "const":
        return np.full(shape, feed["value"], dtype)
    if kind == "bool":
        return np.full(shape, feed["cycle"][step % len(feed["cycle"])], dtype)
    drawn = bits(seed, k, int(np.prod(shape, dtype=np.int64)))
    if kind == "int":
        span = np.uint64(feed["hi"] - feed["lo"])
        return ((drawn % span).astype(np.int64) + feed["lo"]).astype(dtype).reshape(shape)
    if kind == "normal":
        quarters = drawn[:, None] >> np.array([0, 16, 32, 48], np.uint64) & np.uint64(0xFFFF)
        return ((quarters.sum(1).astype(np.int64) - 131070) / 37837.0).astype(dtype).reshape(shape)
    raise ValueError(f"feed kind {kind!r}: expected one of {', '.join(KINDS)}")
