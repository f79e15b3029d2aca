"""Why a derivative is zero, missing or not finite."""
