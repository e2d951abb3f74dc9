"""Every table and figure of the paper, from public names only: `counterpop paper all`.

published and datasets hold what is given; plan, cache, runs and pictures train and measure; uncertainty says how
certain a figure is; statistics, accuracy, losses, cost, ablation, gradients, groups, proportion, strengths and
estimators make the items; results are their values; drawing, latex and writing put them on disk.
"""
