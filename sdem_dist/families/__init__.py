"""Exponential families: what naive Bayes with dense features and users' own models are put together from."""

from sdem_dist.families.family import Family
from sdem_dist.families.gaussian import Gaussian, GaussianFull
from sdem_dist.families.nonnegative import Bernoulli, Categorical, Exponential, Multinomial, Poisson

__all__ = ["Bernoulli", "Categorical", "Exponential", "Family", "Gaussian", "GaussianFull", "Multinomial", "Poisson"]
