"""The table behind `functad.coverage(module="scipy")`, of SciPy 1.17."""

# Written by `python -m tests.scipy.table`.

VERSION = "1.17"
"""Of SciPy, with which the table was made."""

TABLE: dict[str, dict[str, str]] = {
    "scipy.fft": {
        "adoption": """
fftfreq fftshift fhtoffset ifftshift rfftfreq
""",
        "constant": """
get_workers next_fast_len prev_fast_len register_backend set_backend set_global_backend set_workers skip_backend
""",
        "rule": """
dct dctn dst dstn fft fft2 fftn fht hfft hfft2 hfftn idct idctn idst idstn ifft ifft2 ifftn ifht ihfft ihfft2 ihfftn irfft
irfft2 irfftn rfft rfft2 rfftn
""",
    },
}
"""By part and by what functad makes of them, public names of SciPy that have no entry among those of NumPy."""
