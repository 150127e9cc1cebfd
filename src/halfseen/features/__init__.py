"""From a picture to blocks: the pyramid of levels and the descriptors."""
