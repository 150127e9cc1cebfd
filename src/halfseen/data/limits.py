"""How much a stranger's file may ask for. Readers check before they allocate."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Upper bounds for one file; what exceeds one is refused with an error that names it.

    pixels         width x height of an image or mask, checked from the header before decoding:
                   100 megapixels are 300 MB as RGB, and some 2 GB while they are searched
    sparse_pixels  an image of more pixels than this must have at least a byte for each
    pixels_per_byte  of them: a photograph has 2 to 10, a file made to exhaust memory 1,000
    image_bytes    an image file on disk
    objects        annotated objects in one image, or results of another detector there
    label_chars    one class name, of a model too
    problems       lines on what a reader left out; the rest is counted
    frames         frames of one video's annotation
    xml_bytes      one VOC annotation, or one list of image ids
    xml_depth      nesting of XML elements; VOC's own files use 5
    json_bytes     one COCO file; instances_train2017.json, the largest, has 470 MB
    polygon_steps  fifths of a pixel along the outlines of one object's polygons: what their
                   rasterisation visits
    results_bytes  one VOC results file
    arrays_bytes   all arrays of a checkpoint or a file of candidates, once decompressed
    sparse_arrays_bytes  arrays of more bytes than this must have at least a byte for each
    arrays_per_byte  of them: candidates have 2, a file made to exhaust memory 1,000
    model_bytes    one model file
    components     components of a model
    window_side    blocks along a side of a component
    channels       features of a block
    names          names in one list of images
    name_bytes     one name in such a list
    tar_header_bytes  one header of a tar archive, long names included
    """

    pixels: int = 100_000_000
    sparse_pixels: int = 25_000_000
    pixels_per_byte: int = 12
    image_bytes: int = 512 * 2**20
    objects: int = 10_000
    label_chars: int = 256
    problems: int = 10_000
    frames: int = 30_000
    xml_bytes: int = 8 * 2**20
    xml_depth: int = 32
    json_bytes: int = 512 * 2**20
    polygon_steps: int = 5_000_000
    results_bytes: int = 256 * 2**20
    arrays_bytes: int = 2**30
    sparse_arrays_bytes: int = 64 * 2**20
    arrays_per_byte: int = 30
    model_bytes: int = 256 * 2**20
    components: int = 64
    window_side: int = 64
    channels: int = 1024
    names: int = 100_000_000
    name_bytes: int = 32_768
    tar_header_bytes: int = 2**20


LIMITS = Limits()
