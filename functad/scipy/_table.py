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
    "scipy.integrate": {
        "adoption": """
DOP853 RK23 RK45 cumulative_simpson cumulative_trapezoid fixed_quad nsum qmc_quad romb simpson tanhsinh trapezoid
""",
        "constant": """
DenseOutput OdeSolution OdeSolver lebedev_rule newton_cotes
""",
        "refused": """
LSODA Radau complex_ode ode solve_bvp
""",
        "rule": """
BDF cubature dblquad nquad odeint quad quad_vec solve_ivp tplquad
""",
    },
    "scipy.interpolate": {
        "adoption": """
FloaterHormannInterpolator splantider splder
""",
        "constant": """
BivariateSpline generate_knots interp2d
""",
        "refused": """
AAA LSQBivariateSpline LSQSphereBivariateSpline NdPPoly RectBivariateSpline RectSphereBivariateSpline SmoothBivariateSpline
SmoothSphereBivariateSpline bisplev bisplrep insert lagrange pade spalde splprep sproot
""",
        "rule": """
Akima1DInterpolator BPoly BSpline BarycentricInterpolator CloughTocher2DInterpolator CubicHermiteSpline CubicSpline
InterpolatedUnivariateSpline KroghInterpolator LSQUnivariateSpline LinearNDInterpolator NdBSpline NearestNDInterpolator PPoly
PchipInterpolator RBFInterpolator Rbf RegularGridInterpolator UnivariateSpline approximate_taylor_polynomial
barycentric_interpolate griddata interp1d interpn krogh_interpolate make_interp_spline make_lsq_spline make_smoothing_spline
make_splprep make_splrep pchip_interpolate splev splint splrep
""",
    },
    "scipy.linalg": {
        "adoption": """
block_diag cdf2rdf companion diagsvd fiedler fiedler_companion khatri_rao leslie solve_circulant
""",
        "constant": """
bandwidth dft find_best_blas_type get_blas_funcs get_lapack_funcs hadamard helmert hilbert invhilbert invpascal ishermitian
issymmetric pascal
""",
        "refused": """
cossin hessenberg ldl matrix_balance ordqz qr_delete qr_insert qr_update qz rsf2csf
""",
        "rule": """
cho_factor cho_solve cho_solve_banded cholesky cholesky_banded circulant clarkson_woodruff_transform convolution_matrix coshm
cosm det eig eig_banded eigh eigh_tridiagonal eigvals eigvals_banded eigvalsh eigvalsh_tridiagonal expm expm_cond expm_frechet
fractional_matrix_power funm hankel inv logm lstsq lu lu_factor lu_solve matmul_toeplitz norm null_space orth
orthogonal_procrustes pinv pinvh polar qr qr_multiply rq schur signm sinhm sinm solve solve_banded solve_continuous_are
solve_continuous_lyapunov solve_discrete_are solve_discrete_lyapunov solve_lyapunov solve_sylvester solve_toeplitz
solve_triangular solveh_banded sqrtm subspace_angles svd svdvals tanhm tanm toeplitz
""",
    },
    "scipy.ndimage": {
        "constant": """
binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening binary_propagation
distance_transform_bf distance_transform_cdt distance_transform_edt find_objects generate_binary_structure histogram
iterate_structure label maximum_position minimum_position value_indices watershed_ift
""",
        "refused": """
fourier_ellipsoid
""",
        "rule": """
affine_transform black_tophat center_of_mass convolve convolve1d correlate correlate1d extrema fourier_gaussian fourier_shift
fourier_uniform gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace generic_filter generic_filter1d
generic_gradient_magnitude generic_laplace geometric_transform grey_closing grey_dilation grey_erosion grey_opening
labeled_comprehension laplace map_coordinates maximum maximum_filter maximum_filter1d mean median median_filter minimum
minimum_filter minimum_filter1d morphological_gradient morphological_laplace percentile_filter prewitt rank_filter rotate shift
sobel spline_filter spline_filter1d standard_deviation sum sum_labels uniform_filter uniform_filter1d variance vectorized_filter
white_tophat zoom
""",
    },
    "scipy.optimize": {
        "adoption": """
approx_fprime rosen rosen_der rosen_hess rosen_hess_prod
""",
        "constant": """
BFGS Bounds BroydenFirst HessianUpdateStrategy InverseJacobian KrylovJacobian LbfgsInvHessProduct LinearConstraint
NonlinearConstraint OptimizeResult RootResults SR1 bracket check_grad line_search linprog_verbose_callback show_options
""",
        "refused": """
brute differential_evolution direct dual_annealing fmin_cobyla linear_sum_assignment linprog milp quadratic_assignment shgo
""",
        "rule": """
anderson basinhopping bisect brent brenth brentq broyden1 broyden2 curve_fit diagbroyden excitingmixing fixed_point fmin
fmin_bfgs fmin_cg fmin_l_bfgs_b fmin_ncg fmin_powell fmin_slsqp fmin_tnc fminbound fsolve golden isotonic_regression
least_squares leastsq linearmixing lsq_linear minimize minimize_scalar newton newton_krylov nnls ridder root root_scalar toms748
""",
    },
    "scipy.signal": {
        "adoption": """
StateSpace TransferFunction ZerosPolesGain abcd_normalize bilinear_zpk bode butter buttord cheb1ap cheb1ord cheb2ap cheb2ord
cheby1 cheby2 chirp closest_STFT_dual_window dbode dfreqresp dlsim dlti ellip ellipap ellipord firwin firwin_2d freqresp freqs
freqs_zpk freqz_sos freqz_zpk gammatone gauss_spline gausspulse get_window group_delay iircomb iirdesign iirfilter iirnotch
iirpeak invres invresz kaiser_atten kaiser_beta kaiserord lombscargle lp2bp lp2bp_zpk lp2bs lp2bs_zpk lp2hp lp2hp_zpk lp2lp
lp2lp_zpk lti normalize sawtooth sos2tf sos2zpk sosfreqz ss2tf ss2zpk sweep_poly tf2sos tf2ss tf2zpk vectorstrength wiener
zpk2sos zpk2ss zpk2tf
""",
        "constant": """
argrelextrema argrelmax argrelmin besselap buttap check_COLA check_NOLA choose_conv_method correlation_lags czt_points
find_peaks_cwt findfreqs max_len_seq savgol_coeffs square unit_impulse
""",
        "refused": """
band_stop_obj remez
""",
        "rule": """
CZT ShortTimeFFT ZoomFFT bessel bilinear coherence cont2discrete convolve convolve2d correlate correlate2d csd cspline1d
cspline1d_eval cspline2d czt decimate deconvolve detrend dimpulse dstep envelope fftconvolve filtfilt find_peaks firls firwin2
freqz hilbert hilbert2 impulse istft lfilter lfilter_zi lfiltic lsim medfilt medfilt2d minimum_phase oaconvolve order_filter
peak_prominences peak_widths periodogram place_poles qspline1d qspline1d_eval qspline2d resample resample_poly residue residuez
savgol_filter sepfir2d sosfilt sosfilt_zi sosfiltfilt spectrogram spline_filter step stft symiirorder1 symiirorder2 unique_roots
upfirdn welch zoom_fft
""",
    },
    "scipy.signal.windows": {
        "adoption": """
exponential gaussian general_cosine general_gaussian general_hamming get_window kaiser kaiser_bessel_derived taylor tukey
""",
        "constant": """
barthann bartlett blackman blackmanharris bohman boxcar cosine flattop hamming hann lanczos nuttall parzen triang
""",
        "rule": """
chebwin dpss
""",
    },
    "scipy.sparse.linalg": {
        "adoption": """
LaplacianNd LinearOperator aslinearoperator expm_multiply matrix_power
""",
        "constant": """
SuperLU inv is_sptriangular norm onenormest spbandwidth use_solver
""",
        "refused": """
eigs eigsh lobpcg svds
""",
        "rule": """
bicg bicgstab cg cgs expm factorized funm_multiply_krylov gcrotmk gmres lgmres lsmr lsqr minres qmr spilu splu spsolve
spsolve_triangular tfqmr
""",
    },
    "scipy.spatial": {
        "adoption": """
Rectangle distance_matrix minkowski_distance minkowski_distance_p
""",
        "constant": """
convex_hull_plot_2d delaunay_plot_2d tsearch voronoi_plot_2d
""",
        "refused": """
ConvexHull Delaunay HalfspaceIntersection KDTree SphericalVoronoi Voronoi cKDTree
""",
        "rule": """
geometric_slerp procrustes
""",
    },
    "scipy.spatial.distance": {
        "adoption": """
braycurtis canberra chebyshev cityblock correlation cosine jensenshannon mahalanobis sqeuclidean
""",
        "constant": """
dice hamming is_valid_dm is_valid_y jaccard num_obs_dm num_obs_y rogerstanimoto russellrao sokalsneath yule
""",
        "rule": """
cdist directed_hausdorff euclidean minkowski pdist seuclidean squareform
""",
    },
    "scipy.spatial.transform": {
        "refused": """
RigidTransform
""",
        "rule": """
Rotation RotationSpline Slerp
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
    "scipy.stats": {
        "adoption": """
Binomial Logistic Mixture Normal Uniform abs alexandergovern alpha anderson anglit arcsine bartlett bayes_mvs betabinom
binned_statistic binned_statistic_2d binned_statistic_dd boltzmann bootstrap boxcox boxcox_llf boxcox_normplot bradford burr
burr12 chi chi2 chi2_contingency chisquare circmean circstd circvar combine_pvalues cramervonmises crystalball cumfreq describe
dgamma differential_entropy directional_stats dirichlet dirichlet_multinomial dlaplace dweibull entropy epps_singleton_2samp
erlang exp expon exponpow exponweib f f_oneway false_discovery_control fatiguelife fisk gamma genexpon gengamma genhalflogistic
genlogistic gennorm geom gibrat gmean gompertz gstd gumbel_l gumbel_r gzscore halfcauchy halfgennorm halflogistic halfnorm hmean
hypsecant invgamma invweibull iqr jarque_bera johnsonsb johnsonsu kappa3 kstat kstatvar kurtosis kurtosistest laplace
laplace_asymmetric levene levy levy_l linregress lmoment log loggamma logistic loglaplace lognorm loguniform lomax
make_distribution maxwell median_abs_deviation mielke mode moment monte_carlo_test moyal multinomial mvsdist nakagami norm
normal_inverse_gamma normaltest obrientransform order_statistic pareto pearsonr permutation_test planck pmean pointbiserialr
poisson power_divergence powerlaw powerlognorm powernorm probplot quantile rayleigh reciprocal relfreq rv_histogram
scoreatpercentile sem sigmaclip skew skewcauchy skewtest sobol_indices t theilslopes tmax tmean tmin trapezoid trim1 trim_mean
trimboth truncate truncexpon truncnorm truncpareto truncweibull_min tsem tstd ttest_1samp ttest_ind ttest_ind_from_stats
ttest_rel tvar uniform variation vonmises_fisher weibull_max weibull_min wrapcauchy yeojohnson yeojohnson_llf
yeojohnson_normplot yulesimon zmap zscore
""",
        "constant": """
BootstrapMethod CensoredData MonteCarloMethod PermutationMethod anderson_ksamp ansari brunnermunzel bws_test chatterjeexi
cramervonmises_2samp fligner friedmanchisquare hypergeom kendalltau kruskal ks_2samp logrank mannwhitneyu median_test mood
multiscale_graphcorr multivariate_hypergeom nhypergeom ortho_group page_trend_test percentileofscore power quantile_test randint
random_correlation random_table rankdata ranksums rv_discrete somersd spearmanr spearmanrho special_ortho_group tiecorrect
uniform_direction unitary_group weightedtau wilcoxon
""",
        "refused": """
barnard_exact boschloo_exact dunnett fisher_exact nchypergeom_wallenius
""",
        "rule": """
Covariance argus bernoulli beta betanbinom betaprime binom binomtest boxcox_normmax cauchy cosine dpareto_lognorm ecdf
energy_distance expectile exponnorm fit foldcauchy foldnorm gausshyper gaussian_kde genextreme genhyperbolic geninvgauss
genpareto goodness_of_fit invgauss invwishart irwinhall jf_skew_t kappa4 ks_1samp ksone kstest kstwo kstwobign landau
levy_stable logser matrix_normal matrix_t multivariate_normal multivariate_t nbinom ncf nchypergeom_fisher nct ncx2 norminvgauss
pearson3 poisson_binom poisson_means_test ppcc_max ppcc_plot rdist recipinvgauss rel_breitwigner rice rv_continuous semicircular
shapiro siegelslopes skellam skewnorm studentized_range triang tukey_hsd tukeylambda vonmises vonmises_line wald
wasserstein_distance wasserstein_distance_nd wishart yeojohnson_normmax zipf zipfian
""",
    },
    "scipy.stats.contingency": {
        "adoption": """
chi2_contingency expected_freq margins
""",
        "constant": """
association crosstab odds_ratio relative_risk
""",
    },
    "scipy.stats.mstats": {
        "adoption": """
chisquare gmean hmean zmap zscore
""",
        "constant": """
brunnermunzel count_tied_groups friedmanchisquare kendalltau kendalltau_seasonal kruskal kruskalwallis ks_2samp ks_twosamp
mannwhitneyu meppf msign plotting_positions rankdata spearmanr
""",
        "refused": """
argstoarray find_repeats mode trim trima trimboth trimr trimtail
""",
        "rule": """
compare_medians_ms describe f_oneway hdmedian hdquantiles hdquantiles_sd idealfourths ks_1samp kstest kurtosis kurtosistest
linregress median_cihs mjci moment mquantiles mquantiles_cimj normaltest obrientransform pearsonr pointbiserialr rsh
scoreatpercentile sem sen_seasonal_slopes siegelslopes skew skewtest theilslopes tmax tmean tmin trimmed_mean trimmed_mean_ci
trimmed_std trimmed_stde trimmed_var tsem ttest_1samp ttest_ind ttest_onesamp ttest_rel tvar variation winsorize
""",
    },
    "scipy.stats.qmc": {
        "adoption": """
MultivariateNormalQMC scale
""",
        "constant": """
Halton LatinHypercube PoissonDisk QMCEngine Sobol
""",
        "refused": """
MultinomialQMC
""",
        "rule": """
discrepancy geometric_discrepancy update_discrepancy
""",
    },
}
"""By part and by what functad makes of them, public names of SciPy that have no entry among those of NumPy."""
