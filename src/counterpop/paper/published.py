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
OVER_ALL_USERS = ("ml10m", "netflix")
"""Where published figures are DICE's: averages over all users, those without a test item counting 0. The paper ran MACR
and its own method there itself and does not say how it averages."""

# Table I, ML-10M: number; interactions of each with the head of the other side, and with the rest
UNBALANCED = {
    "all users": (37962, 17.3, 4.3),
    "active users": (20801, 25.1, 6.6),
    "inactive users": (17161, 7.9, 1.7),
    "all items": (4819, 136.6, 34.2),
    "popular items": (328, 1591.6, 414.0),
    "unpopular items": (4491, 30.3, 6.4),
}
SIZES = {  # Table II: users, items, interactions, and the column called sparsity, which is the density
    "ml10m": (37962, 4819, 1371473, 0.007496),
    "netflix": (32450, 8432, 2212690, 0.008086),
    "adressa": (13485, 744, 116321, 0.011594),
    "gowalla": (29858, 40981, 1027370, 0.000840),
}
PARTS = {"ml10m": (60, 10, 30), "netflix": (60, 10, 30), "adressa": (80, 10, 10), "gowalla": (80, 10, 10)}
"""Section V-A: per cent of the interactions in train, validation and test."""

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

# LightGCN on MACR's Gowalla files, as PAAC's authors report (KDD 2024); training was stopped by test, no hit rate
_RIVALS = {
    ("lightgcn", "gowalla", "simgcl"): {"recall": 0.1194, "ndcg": 0.0804},
    ("lightgcn", "gowalla", "paac"): {"recall": 0.1232, "ndcg": 0.0848},
}

GAINS = {  # Section V-B: mean gain over the plain backbone as the text quotes it, in per cent
    "mf": {"recall": 37.33, "hit_rate": 33.87, "ndcg": 51.79},
    "lightgcn": {"recall": 51.33, "hit_rate": 32.83, "ndcg": 56.34},
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

# Table IV: times plain, as printed; 87 s against 77 s are 1.13 times, not 1.29
RATIOS = {
    ("mf", "dice"): (2.63, 2.68),
    ("mf", "macr"): (1.21, 1.29),
    ("mf", "gradient"): (1.08, 1.01),
    ("lightgcn", "dice"): (2.43, 2.25),
    ("lightgcn", "macr"): (2.41, 2.22),
    ("lightgcn", "gradient"): (1.02, 1.01),
}

# Table V: recall, hit rate and NDCG on (ML-10M, Adressa). Its text says that alpha 1 = 0 drops the user term and
# alpha 2 = 0 the item term; its equations use the two letters the other way round.
ABLATED = ("ml10m", "adressa")
VARIANTS = ("whole method", "no normalisation", "user side off", "item side off")
_TABLE5 = {
    ("mf", "whole method"): ".173 .536 .116  .116 .147 .056",
    ("mf", "no normalisation"): ".164 .517 .109  .098 .125 .044",
    ("mf", "user side off"): ".153 .497 .101  .088 .113 .043",
    ("mf", "item side off"): ".160 .520 .111  .089 .133 .049",
    ("lightgcn", "whole method"): ".186 .564 .127  .134 .166 .067",
    ("lightgcn", "no normalisation"): ".171 .532 .114  .122 .148 .052",
    ("lightgcn", "user side off"): ".154 .498 .101  .119 .151 .061",
    ("lightgcn", "item side off"): ".175 .540 .117  .113 .144 .051",
}

SETTINGS = {  # how the papers that the backbones' settings are taken from train them, and what the paper says of MACR
    "DICE (ML-10M, Netflix)": {
        "dim": "128 (DICE: 64 + 64)",
        "optimiser": "Adam .001, betas .5 .99, amsgrad",
        "batch": "128",
        "L2": "weight decay 5e-8",
        "positives": "interactions",
        "negatives": "4 (DICE: clearly more or clearly less popular)",
    },
    "MACR (Adressa, Gowalla)": {
        "dim": "64",
        "optimiser": "Adam .001",
        "batch": "1,024 to 8,192",
        "L2": "not given in our source",
        "positives": "users, then one of their items",
        "negatives": "1, uniform",
    },
    "MACR (ML-10M, Netflix), run by the paper": {
        "dim": "128",
        "optimiser": "not stated",
        "batch": "128",
        "L2": "not stated",
        "positives": "not stated",
        "negatives": "not stated",
    },
}


def table3(backbone: str, dataset: str, method: str) -> dict[str, float]:
    """The published recall, hit rate and NDCG at 20 of a cell.

    >>> table3("mf", "netflix", "dice")
    {'recall': 0.125, 'hit_rate': 0.554, 'ndcg': 0.107}
    """
    return _cell(_TABLE3[backbone, method], DATASETS.index(dataset))


def known(backbone: str, dataset: str, method: str) -> dict[str, float]:
    """What anybody has published of a cell: the paper's Table III, or what PAAC's authors report; often nothing.

    >>> known("lightgcn", "gowalla", "simgcl"), known("lightgcn", "adressa", "paac")
    ({'recall': 0.1194, 'ndcg': 0.0804}, {})
    """
    if (backbone, method) in _TABLE3:
        return table3(backbone, dataset, method)
    return _RIVALS.get((backbone, dataset, method), {})


def table5(backbone: str, dataset: str, variant: str) -> dict[str, float]:
    """The same of the ablation.

    >>> table5("lightgcn", "adressa", "item side off")
    {'recall': 0.113, 'hit_rate': 0.144, 'ndcg': 0.051}
    """
    return _cell(_TABLE5[backbone, variant], ABLATED.index(dataset))


def _cell(line: str, place: int) -> dict[str, float]:
    figures = [float(figure) for figure in line.split()]
    first = len(METRICS) * place
    return dict(zip(METRICS, figures[first : first + len(METRICS)], strict=True))
