"""The numbers that the paper prints, exactly as printed; ours are shown next to them.

Ren et al., "Mitigating Popularity Bias in Recommendation with Unbalanced Interactions: A Gradient
Perspective".
"""

from __future__ import annotations

DATASETS = ("ml10m", "netflix", "adressa", "gowalla")
METRICS = ("recall", "hit_rate", "ndcg")  # at 20
BACKBONES = ("mf", "lightgcn")
METHODS = ("plain", "ips", "cause", "dice", "macr", "gradient")  # the rows of its tables
PLAIN, OURS = METHODS[0], METHODS[-1]  # the row that others are compared with, and the paper's own method
TIMED = ("plain", "dice", "macr", "gradient")  # the rows of Table IV

POPULAR = {"ml10m": (328, 4819)}  # Table I: popular items of all items
ACTIVE = {"ml10m": (20801, 37962)}  # active users of all users
SIZES = {  # users, items, interactions
    "ml10m": (37962, 4819, 1371473),
    "netflix": (32450, 8432, 2212690),
    "adressa": (13485, 744, 116321),
    "gowalla": (29858, 40981, 1027370),
}

# Table III: recall, hit rate and NDCG for each of DATASETS
_TABLE3 = {
    ("mf", "plain"): ".128 .442 .084  .112 .519 .094  .085 .111 .034  .046 .174 .032",
    ("mf", "ips"): ".133 .443 .085  .105 .488 .086  .096 .128 .039  .048 .174 .033",
    ("mf", "cause"): ".115 .406 .074  .093 .464 .078  .084 .112 .037  .045 .166 .032",
    ("mf", "dice"): ".163 .519 .108  .125 .554 .107  .098 .133 .041  .052 .177 .033",
    ("mf", "macr"): ".138 .469 .089  .119 .533 .101  .109 .140 .050  .077 .252 .050",
    ("mf", "gradient"): ".173 .536 .116  .138 .575 .119  .116 .147 .056  .081 .259 .057",
    ("lightgcn", "plain"): ".137 .462 .089  .102 .490 .087  .098 .123 .040  .045 .172 .032",
    ("lightgcn", "ips"): ".139 .464 .091  .110 .509 .095  .107 .139 .047  .045 .174 .032",
    ("lightgcn", "cause"): ".102 .372 .063  .083 .428 .067  .082 .115 .037  .046 .173 .033",
    ("lightgcn", "dice"): ".181 .556 .122  .142 .591 .121  .111 .141 .046  .054 .185 .036",
    ("lightgcn", "macr"): ".157 .508 .101  .119 .531 .094  .127 .158 .052  .077 .254 .051",
    ("lightgcn", "gradient"): ".186 .564 .127  .145 .595 .127  .134 .166 .067  .081 .263 .053",
}

# Table IV: seconds per epoch on a V100, (ML-10M, Netflix)
SECONDS = {
    ("mf", "plain"): (47.0, 77.0),
    ("mf", "dice"): (124.0, 207.0),
    ("mf", "macr"): (57.0, 87.0),
    ("mf", "gradient"): (51.0, 78.0),
    ("lightgcn", "plain"): (126.0, 201.0),
    ("lightgcn", "dice"): (307.0, 454.0),
    ("lightgcn", "macr"): (304.0, 447.0),
    ("lightgcn", "gradient"): (129.0, 203.0),
}

# Table V: recall of the whole method, without normalisation, and with one side off. Our source gives the two
# one-sided figures without saying which side is off, so they are kept as a pair.
ABLATION = {
    ("ml10m", "mf"): (0.173, 0.164, (0.153, 0.160)),
    ("ml10m", "lightgcn"): (0.186, 0.171, (0.154, 0.175)),
    ("adressa", "mf"): (0.116, 0.098, (0.088, 0.089)),
    ("adressa", "lightgcn"): (0.134, 0.122, (0.119, 0.113)),
}


def table3(backbone: str, dataset: str, method: str) -> dict[str, float]:
    """The published recall, hit rate and NDCG at 20 of a cell.

    >>> table3("mf", "netflix", "dice")
    {'recall': 0.125, 'hit_rate': 0.554, 'ndcg': 0.107}
    """
    figures = [float(figure) for figure in _TABLE3[backbone, method].split()]
    first = len(METRICS) * DATASETS.index(dataset)
    return dict(zip(METRICS, figures[first : first + len(METRICS)], strict=True))
