"""The one palette: Okabe and Ito's colours, which people with any colour vision can tell apart."""

Colour = tuple[int, int, int]

BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)
GREY: Colour = (170, 170, 170)
ORANGE: Colour = (230, 159, 0)
SKY: Colour = (86, 180, 233)
GREEN: Colour = (0, 158, 115)
YELLOW: Colour = (240, 228, 66)
BLUE: Colour = (0, 114, 178)
VERMILION: Colour = (213, 94, 0)
PURPLE: Colour = (204, 121, 167)

# Neighbours in this order differ in lightness as well as in hue.
CYCLE: tuple[Colour, ...] = (ORANGE, SKY, VERMILION, GREEN, PURPLE, BLUE, YELLOW)


def colour(index: int) -> Colour:
    """The colour of the object, curve or class of this number."""
    return CYCLE[index % len(CYCLE)]


def ink(background: Colour) -> Colour:
    """Black or white, whichever can be read on this background."""
    red, green, blue = background
    return BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 110 else WHITE


def hexadecimal(value: Colour) -> str:
    """As plots and web pages write it: '#e69f00'."""
    return "#{:02x}{:02x}{:02x}".format(*value)
