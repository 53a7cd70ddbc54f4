"""A network of the Graph Challenge's kind: 120 layers of 1024 neurons, 60000 images."""

import varve

network = varve.generate.radixnet(neurons=1024, layers=120)
images = varve.generate.images(neurons=1024, samples=60000)
run = network.run(images, activations=False)
print(f"{len(run.live_samples)} of {images.shape[0]} images reach the end, in {run.loop_seconds:.3f} s")
print(network.plan(images))
