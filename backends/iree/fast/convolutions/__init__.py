"""Convolutions on CPUs as kernels of vectors. The pass is convolutions_to_kernels; the other files are its parts.

Each dispatch is a `Code` (`emit/workgroups.py`). Its `form` has the properties that determine the code, such as the
tile of sums in registers. The code reads its `numbers` at run time. Its `part` emits the code.

    file                dispatch            form              part
    channels_first      convolution         ImageForm         ImagePart (image_parts)
    planes              planes              _PlanesForm       _PlanesPart
    toward_kernels      toward_kernel       _GradientForm     _GradientPart
                        panels              _PanelsForm       _PanelsPart
    toward_depthwise    toward_depthwise    _DepthwiseForm    _DepthwisePart

In these files, a place is a spatial position in the result of a convolution, and an offset is a position in its window.
An `ImageTile` covers features and places of a result. A `KernelTile` covers features and offsets, because the gradient
with respect to a kernel has an element for each offset. `ImageSums` and `KernelSums` choose the best tile.
`channels_first` supports groups, because they only shorten the sums. `_is_fast` and `_least` in
convolutions_to_kernels.py decide which convolutions get a kernel.
"""
