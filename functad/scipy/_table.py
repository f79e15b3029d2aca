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
    "scipy.special": {
        "adoption": """
assoc_laguerre chebyc chebys chebyt comb diric factorial factorial2 factorialk h1vp h2vp ivp jvp kvp lambertw log_softmax
logsumexp perm polygamma sh_chebyt sinc softmax softplus spherical_in spherical_jn spherical_kn spherical_yn yvp zeta
""",
        "constant": """
ai_zeros bei_zeros beip_zeros ber_zeros bernoulli berp_zeros bi_zeros c_roots cg_roots erf_zeros errstate euler fresnel_zeros
fresnelc_zeros fresnels_zeros geterr h_roots he_roots j_roots jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros js_roots kei_zeros
keip_zeros kelvin_zeros ker_zeros kerp_zeros l_roots la_roots p_roots ps_roots roots_chebyc roots_chebys roots_chebyt
roots_chebyu roots_gegenbauer roots_genlaguerre roots_hermite roots_hermitenorm roots_jacobi roots_laguerre roots_legendre
roots_sh_chebyt roots_sh_chebyu roots_sh_jacobi roots_sh_legendre s_roots seterr stirling2 t_roots ts_roots u_roots us_roots
y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros
""",
        "refused": """
ellip_harm ellip_harm_2 ellip_normal mathieu_even_coef mathieu_odd_coef obl_cv_seq pbdn_seq pro_cv_seq
""",
        "rule": """
assoc_legendre_p assoc_legendre_p_all chebyu gegenbauer genlaguerre hermite hermitenorm jacobi laguerre legendre legendre_p
legendre_p_all lmbda lqmn lqn multigammaln pbdv_seq pbvv_seq riccati_jn riccati_yn sh_chebyu sh_jacobi sh_legendre sph_harm_y
sph_harm_y_all sph_legendre_p sph_legendre_p_all
""",
    },
}
"""By part and by what functad makes of them, public names of SciPy that have no entry among those of NumPy."""
