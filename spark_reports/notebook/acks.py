# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # acks=0, 1 and all: predict, play, look
#
# For a class. Three brokers hold a partition; its leader dies while its followers are behind. The same faults are
# played three times, and only `acks` differs. Nothing here needs Spark or a network. Write your predictions down
# before you run the cell below them.

# %%
import highwater

VARIANTS = {"0": "acks-0", "1": None, "all": "acks-all"}
FATES = ("acked", "lost", "missing")

# %% [markdown]
# ## Your predictions
#
# p1 sends r0..r19. Five of them, r10..r14, reach the leader when its followers no longer fetch; then the leader is
# killed. For each value of acks: how many records are acked, how many of these are lost, and how many never arrive
# although no answer has promised them?

# %%
predicted: dict[str, dict[str, int]] = {
    "0": {"acked": 0, "lost": 0, "missing": 0},
    "1": {"acked": 0, "lost": 0, "missing": 0},
    "all": {"acked": 0, "lost": 0, "missing": 0},
}

# %% [markdown]
# ## What happened

# %%
runs = {acks: highwater.run("acks1-leader-kill", variant=variant) for acks, variant in VARIANTS.items()}
counted = {acks: {fate: len(run.records[fate]) for fate in FATES} for acks, run in runs.items()}
print("acks   fate      predicted  counted")
for acks, counts in counted.items():
    for fate, count in counts.items():
        guess = globals().get("predicted", {}).get(acks, {}).get(fate)
        print(f"{acks:<5}  {fate:<8}  {guess!s:>9}  {count:>7}  {'' if guess == count else '<'}")

# %% [markdown]
# ## Why
#
# With acks=1 the leader answers as soon as it has a record itself. With acks=all it waits for every in-sync replica,
# so the five records have no answer when it dies, and p1 sends them again to the next leader. With acks=0 no broker
# answers, so no promise is broken.

# %%
print(runs["1"].explain(runs["1"].lost[0]))

# %% [markdown]
# ## What acks=all costs
#
# The time from `send` to the ack of each record, in milliseconds.

# %%
latencies = {
    acks: sorted(us / 1000 for us in runs[acks].table("record_acked").column("latency_us").to_pylist())
    for acks in ("1", "all")
}
for acks, found in latencies.items():
    print(f"acks={acks:<4} median {found[len(found) // 2]:>8.1f} ms   longest {found[-1]:>8.1f} ms")

# %% [markdown]
# ## Pictures
#
# Step through the two runs side by side: the last ack, the kill, the election, the truncation.

# %%
highwater.compare("acks1-leader-kill", variants=["base", "acks-all"]).view()
