"""Every table and figure of the paper, from public names only: `counterpop paper all`.

published and datasets hold what is given; plan, cache and runs train; statistics, accuracy, cost, parts and proportion
make the items; results are their values; drawing and writing put them on disk.
"""
