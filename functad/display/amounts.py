"""Texts for counts, bytes, shares and durations."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def counted(count: int, what: str, many: str = "") -> str:
    """Return a count with its noun: `1 record`, `12,345 records`.

    Args:
        count: the number.
        what: the noun in the singular.
        many: the plural. Default: the singular with an s.

    Example:
        >>> counted(1, "entry", "entries"), counted(12345, "record")
        ('1 entry', '12,345 records')
    """
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def bytes_text(count: float) -> str:
    """Return a number of bytes with three digits and a decimal unit.

    Example:
        >>> bytes_text(7), bytes_text(1536), bytes_text(8e6), bytes_text(999_950)
        ('7 B', '1.54 kB', '8 MB', '1 MB')
    """
    return _scaled(float(count), _UNITS)


def seconds_text(seconds: float) -> str:
    """Return a duration with three digits in ns, us, ms or s; from two minutes on in minutes and seconds.

    Example:
        >>> seconds_text(2.5e-6), seconds_text(0.0321), seconds_text(200)
        ('2.5 us', '32.1 ms', '3 min 20 s')
    """
    if seconds >= 120:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{seconds:.3g} s" if seconds >= 1 else _scaled(seconds * 1e9, ("ns", "us", "ms", "s"))


def share_text(part: float, whole: float) -> str:
    """Return a part of a whole in per cent; `100 %` and `0 %` appear only for exactly all and nothing.

    Example:
        >>> share_text(1, 3), share_text(999_999, 1_000_000), share_text(1, 1_000_000), share_text(0, 0)
        ('33.3 %', '> 99.9 %', '< 0.1 %', '0 %')
    """
    if not part or not whole:
        return "0 %"
    share = 100.0 * part / whole
    if share < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if 99.9 < share < 100.0 else f"{share:.3g} %"


def _scaled(amount: float, units: tuple[str, ...]) -> str:
    """Return an amount with three digits in the largest unit that keeps it at least one."""
    unit = 0
    while unit + 1 < len(units) and float(f"{amount:.3g}") >= 1000.0:
        amount, unit = amount / 1000.0, unit + 1
    return f"{float(f'{amount:.3g}'):g} {units[unit]}"
