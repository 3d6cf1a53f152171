"""Exponential families: what naive Bayes with dense features and users' own models are put together from."""

from sdem_dist.families.bernoulli import Bernoulli
from sdem_dist.families.categorical import Categorical
from sdem_dist.families.exponential import Exponential
from sdem_dist.families.family import Family
from sdem_dist.families.gaussian import Gaussian
from sdem_dist.families.gaussian_full import GaussianFull
from sdem_dist.families.multinomial import Multinomial
from sdem_dist.families.poisson import Poisson

__all__ = ["Bernoulli", "Categorical", "Exponential", "Family", "Gaussian", "GaussianFull", "Multinomial", "Poisson"]
