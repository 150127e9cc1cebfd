# %% [markdown]
# # Tutorial
#
# Train a detector that says which part of each object is visible, use it and measure it, all from
# Python. Paste the cells into a Python prompt or a notebook, or run them all:
# `python examples/tutorial.py`. It draws its own pictures and takes under a minute. Everything is
# small here, so scores are modest; `halfseen demo` is the same at a better size.

# %%
import numpy as np

import halfseen as hs

lessons = hs.render_scenes(40, seed=1, classes=["car"], size=(240, 320))
tests = hs.render_scenes(12, seed=2, classes=["car"], size=(240, 320))

# %% [markdown]
# ## The data
#
# A dataset is a sequence of ground truths, with the images beside. Scenes know more than
# annotators do: `box` is tight around what is seen of an object, `full` is the whole of it, and
# `mask(i)` has the visible pixels. `hs.read_voc` and `hs.read_coco` give the same for your own
# data, as far as the files know it.

# %%
truth = lessons[0]
for i in range(len(truth)):
    print(truth.label[i], truth.box[i], f"{truth.visible_fraction[i]:.0%} in view")

# %% [markdown]
# ## Learn from boxes
#
# No mask is used: which blocks are hidden is a latent variable, and training infers it. The
# settings make windows of about 60 blocks, and few rounds.

# %%
settings = hs.TrainSettings(blocks=60, updates=2, rounds=2, mining_images=24, alpha=0.02)
model = hs.train(lessons, "car", settings)
for component in model.components:
    print(component.shape, "blocks; a hidden one adds", round(component.u, 3))

# %% [markdown]
# ## Detect
#
# `found` holds parallel arrays, best first. `full` is the whole object, `visible` its visible
# part, and `visibility[i]` the flags of detection i, one a block.

# %%
detector = hs.Detector(model)
found = [detector.detect(tests.image(i)) for i in range(len(tests))]
best = max(range(len(tests)), key=lambda i: max(found[i].score, default=-2.0))
first = found[best][:1]
print(f"score {first.score[0]:.2f}, {first.visible_fraction[0]:.0%} of its blocks visible")
print(np.where(first.visibility[0], "#", "."))

# %% [markdown]
# ## Cover it
#
# Paint bars over the left third of what was found. A plain template would count every edge of
# the bars against the car; here a block that speaks against the car is called hidden, and costs a
# constant instead. The flags are cautious: a block that merely lost its edges says nothing, and
# stays visible.

# %%
image = tests.image(best).copy()
x1, y1, x2, y2 = np.rint(first.clipped[0]).astype(int)
third = (x2 - x1) // 3
image[y1:y2, x1 : x1 + third] = np.where(np.arange(third) % 8 < 4, 200, 40)[:, None]
candidates = detector.candidates(image, threshold=-3.0)
covered = candidates[hs.iou_matrix(candidates.clipped, first.clipped)[:, 0] > 0.6][:1]
print(f"score {covered.score[0]:.2f}, {covered.visible_fraction[0]:.0%} visible")
print(np.where(covered.visibility[0], "#", "."))

# %% [markdown]
# ## The inference alone
#
# Flags come from an exact minimum cut. It takes any responses: here a grid in which the left
# columns fit badly.

# %%
responses = np.full((1, 4, 6), 0.3, np.float32)
responses[:, :, :2] = -0.5
score, flags = hs.infer_visibility(responses, u=-0.1, alpha=0.05)
print(f"{score[0]:.2f}")
print(np.where(flags[0], "#", "."))

# %% [markdown]
# ## Choose among detections
#
# Covering suppression keeps the set that explains the picture best, and proves it. It also says
# who was dropped, and why. `hs.suppress_masks` does the same for masks of any other detector.

# %%
candidates = detector.candidates(tests.image(best), threshold=-1.0)
kept = hs.suppress(candidates, method="covering", overlap=0.5)
print(f"{len(candidates)} windows, {len(kept.indices)} kept; optimal: {kept.optimal}")
dropped = sorted(set(range(len(candidates))) - set(kept.indices.tolist()))
if dropped:
    print(kept.why(dropped[0]))

# %% [markdown]
# ## Measure
#
# By the VOC development kit's rules, to the letter. Then keep the model: a small file that cannot
# execute anything.

# %%
result = hs.average_precision(tests.truths, found, "car")
print(f"AP {100 * result.ap:.1f}% of {result.positives} cars (VOC, all-point)")
hs.save(model, "tutorial-car.safetensors")

# %% [markdown]
# From here: `halfseen detect tutorial-car.safetensors PICTURES -o found`, or [train on your own
# pictures](train-your-own.md).
