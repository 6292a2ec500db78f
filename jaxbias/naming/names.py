"""The names of policies and families, and the choices that some settings have."""

from enum import StrEnum


class PolicyName(StrEnum):
    """Policies; each member is called like its class in `jaxbias.policies`."""

    Greedy = "greedy"
    EpsilonGreedy = "epsilon-greedy"
    LilUCB = "lil-ucb"
    UCB1 = "ucb1"
    KLUCB = "kl-ucb"
    Thompson = "thompson"
    BetaThompson = "beta-thompson"
    ExplorationSampling = "exploration-sampling"
    BetaExplorationSampling = "beta-exploration-sampling"
    GrowthBook = "growthbook"
    PlayTheWinner = "play-the-winner"
    Exp3 = "exp3"
    Uniform = "uniform"


class FamilyName(StrEnum):
    """Reward families; each member is called like its class in `jaxbias.rewards`."""

    Normal = "normal"
    Bernoulli = "bernoulli"
    Poisson = "poisson"
    Exponential = "exponential"


class Ties(StrEnum):
    """Which of several best arms is pulled."""

    random = "random"
    first = "first"


class Opening(StrEnum):
    """Whether the first pull of each arm was forced or chosen by the policy."""

    forced = "forced"
    chosen = "chosen"


class Allocation(StrEnum):
    """How a batch was divided among the arms."""

    independent = "independent"
    shares = "shares"


class BatchBy(StrEnum):
    """The unit of time whose pulls are a batch."""

    hour = "hour"
    day = "day"
    week = "week"
    month = "month"
