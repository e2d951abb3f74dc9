"""Every table and figure of the paper, from public names only: `counterpop paper all`.

published and datasets are what is given, plan and runs what is trained, statistics, accuracy, cost, parts and
proportion the items, results what they are made of, drawing and writing how they get on disk.
"""
