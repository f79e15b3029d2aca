"""The ufuncs of `scipy.special`, in families. The first call of a function with a Tensor imports its family.

The modules of the families import SciPy. They are imported only after the user's program has imported SciPy, or by
`import_families`.
"""

from __future__ import annotations

from importlib import import_module

FAMILIES: dict[str, str] = {
    "gamma": "gamma gammaln gammasgn loggamma rgamma psi poch binom",
    "error_functions": "erf erfc erfi erfcx dawsn wofz erfinv erfcinv ndtr log_ndtr ndtri ndtri_exp owens_t voigt_profile "
    "fresnel modfresnelp modfresnelm",
    "exponential_integrals": "exp1 expi expn sici shichi spence _lambertw wrightomega",
    "bessel": "j0 j1 y0 y1 i0 i1 k0 k1 i0e i1e k0e k1e jv yv iv kv jve yve ive kve kn yn hankel1 hankel2 hankel1e hankel2e "
    "struve modstruve besselpoly wright_bessel _spherical_jn _spherical_jn_d _spherical_yn _spherical_yn_d _spherical_in "
    "_spherical_in_d _spherical_kn _spherical_kn_d log_wright_bessel",
    "airy": "airy airye itairy itj0y0 iti0k0 it2j0y0 it2i0k0 itstruve0 it2struve0 itmodstruve0 ber bei ker kei berp beip kerp "
    "keip kelvin pbdv pbvv pbwa",
    "incomplete": "beta betaln betainc betaincc betaincinv betainccinv gammainc gammaincc gammaincinv gammainccinv "
    "btdtria btdtrib",
    "elliptic": "ellipk ellipkm1 ellipe ellipkinc ellipeinc ellipj elliprf elliprg elliprc elliprd elliprj agm",
    "hypergeometric": "hyp0f1 hyp1f1 hyp2f1 hyperu",
    "orthogonal": "eval_legendre eval_jacobi eval_chebyt eval_chebyu eval_chebyc eval_chebys eval_gegenbauer eval_laguerre "
    "eval_genlaguerre eval_hermite eval_hermitenorm eval_sh_legendre eval_sh_chebyt eval_sh_chebyu eval_sh_jacobi lpmv",
    "distributions": "bdtr bdtrc bdtri bdtrik bdtrin chdtr chdtrc chdtri chdtriv fdtr fdtrc fdtri fdtridfd gdtr gdtrc gdtria "
    "gdtrib gdtrix nbdtr nbdtrc nbdtri nbdtrik nbdtrin pdtr pdtrc pdtri pdtrik stdtr stdtrit stdtridf nrdtrimn nrdtrisd "
    "kolmogorov kolmogi _kolmogc _kolmogci _kolmogp tklmbda _binom_pmf _binom_cdf _binom_sf",
    "noncentral": "chndtr chndtrix chndtrinc chndtridf ncfdtr ncfdtri ncfdtrinc ncfdtridfn ncfdtridfd nctdtr nctdtrit "
    "nctdtrinc nctdtridf",
    "smirnov": "smirnov smirnovi _smirnovc _smirnovci _smirnovp",
    "zeta": "_zeta _riemann_zeta zetac",
    "mathieu": "mathieu_a mathieu_b mathieu_cem mathieu_sem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 "
    "pro_cv pro_ang1 pro_ang1_cv pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv "
    "obl_cv obl_ang1 obl_ang1_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv",
    "elementary": "cbrt exp2 exp10 expm1 log1p cosm1 powm1 exprel sindg cosdg tandg cotdg radian round expit log_expit logit "
    "xlogy xlog1py entr rel_entr kl_div huber pseudo_huber boxcox boxcox1p inv_boxcox inv_boxcox1p _log1mexp",
}
"""The family: the names of its ufuncs in SciPy."""

_FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names.split()}


def load(name: str) -> None:
    """Import the family of a function, if it has one."""
    family = _FAMILY_OF.get(name)
    if family is not None:
        import_module(f"{__name__}.{family}")


def import_families() -> None:
    """Import every family, and thereby SciPy."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
