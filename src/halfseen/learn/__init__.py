"""From boxed images to a model: training, mask heads, calibration and tuning."""
