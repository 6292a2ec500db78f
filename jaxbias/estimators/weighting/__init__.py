"""Rewards weighted by the policy's probabilities: propensity weighting and adaptive weighting."""
