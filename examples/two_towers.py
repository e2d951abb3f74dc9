"""A two-tower model in torch: two callables and their inputs are all that is needed."""

import torch

import counterpop as cp
from counterpop.adapters.towers import vectors_of

torch.manual_seed(0)
log = cp.make_world(1500, 300, seed=2).log
users, items = torch.arange(log.n_users), torch.arange(log.n_items)


def tower(size: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Embedding(size, 32), torch.nn.Linear(32, 16))


user_tower, item_tower = tower(log.n_users), tower(log.n_items)
optimizer = torch.optim.Adam([*user_tower.parameters(), *item_tower.parameters()], lr=3e-2)
pairs = torch.stack([torch.from_numpy(log.user_ix), torch.from_numpy(log.item_ix)]).long()
for _ in range(200):
    u, i = pairs[:, torch.randint(len(log), (2048,))]
    j = torch.randint(log.n_items, (2048,))
    vectors = user_tower(u)
    gap = (vectors * (item_tower(i) - item_tower(j))).sum(dim=1)
    loss = torch.nn.functional.softplus(-gap).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

made = vectors_of(user_tower, item_tower, users, items, user_ids=log.user_ids, item_ids=log.item_ids)
fix = cp.debias(**made, interactions=log)
print(
    f"strengths {fix.item_strength} / {fix.user_strength}: recall on uniform held-out pairs "
    f"{fix.uniform.plain.recall:.3f} -> {fix.uniform.adjusted.recall:.3f}"
)
