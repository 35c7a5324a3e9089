"""Convolutions on CPUs as kernels of vectors. The pass is convolutions_to_kernels; the other files are its parts.

Each dispatch is a `Code` (`emit/workgroups.py`). Its `form` determines the code; it has, for example, the tile of sums
in registers. Its `numbers` are read at run time. Its `part` emits the code.

    file                dispatch            form              part
    channels_first      convolution         ImageForm         ImagePart (image_parts)
    planes              planes              _PlanesForm       _PlanesPart
    toward_kernels      toward_kernel       _GradientForm     _GradientPart
                        panels              _PanelsForm       _PanelsPart
    toward_depthwise    toward_depthwise    _DepthwiseForm    _DepthwisePart

An `ImageTile` covers features and places of an image. A `KernelTile` covers offsets of a window and features.
`ImageSums` and `KernelSums` choose the best tile. In `channels_first`, groups only shorten the sums. `_is_fast` and
`_least` in convolutions_to_kernels.py select the grouped convolutions that get a kernel.
"""
