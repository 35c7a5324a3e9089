"""Convolutions on CPUs as kernels of vectors: convolutions_to_kernels is the pass; the other files are its parts.

Each dispatch is a `Code` (`emit/workgroups.py`), which has three fields: a form, which holds the tile of sums in
registers and all other properties on which the code depends; the numbers that the code reads at run time; and a part,
which emits the code:

    file                dispatch            form              part
    channels_first      convolution         ImageForm         ImagePart (image_parts)
    planes              planes              _PlanesForm       _PlanesPart
    toward_kernels      toward_kernel       _GradientForm     _GradientPart
                        panels              _PanelsForm       _PanelsPart
    toward_depthwise    toward_depthwise    _DepthwiseForm    _DepthwisePart

Tiles differ in what they divide: an `ImageTile` is features by places of an image, and a `KernelTile` is offsets of a
window by features. `ImageSums` and `KernelSums` choose the best tile. Groups are sums of fewer channels in
`channels_first`; `_is_fast` and `_least` in convolutions_to_kernels.py say which grouped convolutions get a kernel.
"""
