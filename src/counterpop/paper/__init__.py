"""Every table and figure of the paper, from public names only: `counterpop paper all`.

published and datasets hold what is given; plan, cache, runs and pictures train and measure; statistics, accuracy,
losses, cost, ablation, gradients, groups, proportion, strengths, frontier and estimators make the items; results are
their values; drawing and writing put them on disk.
"""
