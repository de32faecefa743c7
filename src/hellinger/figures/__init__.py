"""Figures: drawings of plain arrays, fit for a paper's column, that know nothing of bandits.

Each function returns a new :class:`matplotlib.figure.Figure`, made without pyplot: no window, no global state.
"""

from __future__ import annotations

from hellinger.errors import needs_extra

with needs_extra("lab"):
    from hellinger.figures._style import colours, render, save
    from hellinger.figures.box import draw_final
    from hellinger.figures.curve import Curve, Line, draw_average, draw_regret
    from hellinger.figures.evaluation import EstimateBar, SupportPanel, draw_estimates, draw_support
    from hellinger.figures.growth import draw_growth
    from hellinger.figures.latency import Timing, draw_latency
    from hellinger.figures.ranking import Place, draw_ranking
    from hellinger.figures.shares import SharePanel, draw_shares
    from hellinger.figures.sharing import Lead, LeadPanel, Reward, draw_leads, draw_rewards

__all__ = [
    "Curve",
    "EstimateBar",
    "Lead",
    "LeadPanel",
    "Line",
    "Place",
    "Reward",
    "SharePanel",
    "SupportPanel",
    "Timing",
    "colours",
    "draw_average",
    "draw_estimates",
    "draw_final",
    "draw_growth",
    "draw_latency",
    "draw_leads",
    "draw_ranking",
    "draw_regret",
    "draw_rewards",
    "draw_shares",
    "draw_support",
    "render",
    "save",
]
